//! Writes a checkpoint in a chosen format to an empty place.

use std::sync::Arc;

use relive_table::{CheckpointProgress, SavedCheckpoint, Snapshot};

use super::compare::{Compared, compare};
use super::list::list;
use super::load::load_one;
use super::root::Root;
use crate::{Error, ErrorKind, Format, LoadOptions};

/// A folder or bucket without checkpoints, to which one checkpoint is written.
#[derive(Debug)]
pub struct Target {
    root: Root,
    format: Format,
}

impl Target {
    /// Opens the folder or bucket at `location`, which is created if necessary.
    ///
    /// # Errors
    /// `Location` if it already contains checkpoints in either format.
    pub fn new(location: &str, format: Format) -> Result<Self, Error> {
        if let Some(info) = list(location)?.first() {
            let text =
                format!("{location} already has checkpoints, such as {}; give a new folder", info.location);
            return Err(Error::plain(ErrorKind::Location, text));
        }
        Ok(Self { root: Root::new(location).format(format), format })
    }

    /// Writes the snapshot.
    ///
    /// # Errors
    /// The errors of [`Root::save`].
    pub fn write(
        &self,
        snapshot: &Snapshot,
        progress: &CheckpointProgress,
    ) -> Result<SavedCheckpoint, Error> {
        self.root.save(snapshot.clone(), progress)
    }

    /// Reads the written checkpoint, and compares it with its source.
    ///
    /// # Errors
    /// `Damaged` if it cannot be read, or if it differs in more than the properties that the format cannot represent.
    pub fn check(
        &self,
        snapshot: &Snapshot,
        saved: &SavedCheckpoint,
        progress: Arc<CheckpointProgress>,
    ) -> Result<Compared, Error> {
        let written = load_one(self.format, &saved.location, &LoadOptions::new().progress(progress))?;
        compare(snapshot, &written.snapshot, self.format).map_err(|difference| {
            let text = format!("{} differs from its source: {difference}", saved.location);
            Error::plain(ErrorKind::Damaged, text)
        })
    }
}
