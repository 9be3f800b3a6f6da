//! Loads a checkpoint as a snapshot.

use std::path::Path;

use super::list::newest;
use super::location::{Location, local_path, locate, trimmed};
use crate::reverb;
use crate::{Catalog, Error, ErrorKind, Format, LoadOptions, Loaded};

/// Loads the checkpoint at `location`, in either format, or the newest one in a folder or bucket. Takes no lock,
/// because a server may be writing there.
///
/// # Errors
/// `Location` if there is no checkpoint; `Damaged` if it is damaged, with the file, place and table; `Io` if the
/// storage refuses an operation.
pub fn load(location: &str, options: &LoadOptions) -> Result<Loaded, Error> {
    let (format, checkpoint) = chosen(location)?;
    load_one(format, &checkpoint, options)
}

/// Returns the checkpoint that a location names, which for a root is its newest checkpoint.
pub(super) fn chosen(location: &str) -> Result<(Format, String), Error> {
    match locate(location)? {
        Location::Checkpoint { format, .. } => Ok((format, trimmed(location).to_owned())),
        Location::Root(root) => match newest(&root)? {
            Some(info) => Ok((info.format, info.location)),
            None => Err(none_there(&root)),
        },
    }
}

pub(super) fn load_one(format: Format, checkpoint: &str, options: &LoadOptions) -> Result<Loaded, Error> {
    match format {
        Format::Reverb => reverb::Store::load_with(&path_of(checkpoint), options),
        Format::Relive => Catalog::open(checkpoint)?.load(options)?.ok_or_else(|| none_there(checkpoint)),
    }
}

/// Returns the local folder of a checkpoint in dm-reverb's format.
pub(super) fn path_of(checkpoint: &str) -> std::path::PathBuf {
    local_path(checkpoint).unwrap_or_else(|| Path::new(checkpoint).to_owned())
}

pub(super) fn none_there(location: &str) -> Error {
    Error::plain(ErrorKind::Location, format!("there is no checkpoint in {location}"))
}
