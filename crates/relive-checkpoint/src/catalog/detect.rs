//! Which format a place holds.

use std::fmt;
use std::path::Path;

use crate::native::Listing;
use crate::{Error, names, reverb, storage};

/// A format of checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Our own: [`Store`](crate::Store).
    Relive,
    /// dm-reverb's: [`reverb::Store`].
    Reverb,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Relive => "relive",
            Self::Reverb => "reverb",
        })
    }
}

/// The format of the checkpoint, or of the root of checkpoints, at `location`; `None` if there is neither. A root that has
/// both is one of ours.
///
/// # Errors
/// The place cannot be listed; `Location` for a URL of an unknown kind.
pub fn detect(location: &str) -> Result<Option<Format>, Error> {
    let location = location.trim_end_matches('/');
    let name = location.rsplit(std::path::is_separator).next().unwrap_or(location);
    if names::checkpoint_number(name).is_some() {
        return Ok(Some(Format::Relive));
    }
    let path = Path::new(location);
    let is_local = !location.contains("://");
    if is_local && !path.is_dir() {
        return Ok(None);
    }
    if Listing::read(storage::open(location)?.as_ref())?.newest().is_some() {
        return Ok(Some(Format::Relive));
    }
    let is_reverb = is_local && (reverb::is_checkpoint(path) || reverb::Store::new(path).latest()?.is_some());
    Ok(is_reverb.then_some(Format::Reverb))
}
