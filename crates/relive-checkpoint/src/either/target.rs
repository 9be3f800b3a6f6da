//! A checkpoint in a format of choice, where there was none.

use std::sync::Arc;

use relive_table::{CheckpointProgress, SavedCheckpoint, Snapshot};

use super::compare::{Compared, compare};
use super::list::list;
use super::load::load_one;
use super::root::Root;
use crate::{Error, ErrorKind, Format, LoadOptions};

/// A folder or bucket without checkpoints, in which one is to be written.
#[derive(Debug)]
pub struct Target {
    root: Root,
    format: Format,
}

impl Target {
    /// The folder or bucket at `location`, which is made if it is not there.
    ///
    /// # Errors
    /// `Location` if there are checkpoints in it already, of whatever format.
    pub fn new(location: &str, format: Format) -> Result<Self, Error> {
        if let Some(info) = list(location)?.first() {
            let text = format!(
                "there are checkpoints in {location} already, such as {}; name a new folder",
                info.location
            );
            return Err(Error::plain(ErrorKind::Location, text));
        }
        Ok(Self { root: Root::new(location).format(format), format })
    }

    /// Writes the snapshot.
    ///
    /// # Errors
    /// As [`Root::save`].
    pub fn write(
        &self,
        snapshot: &Snapshot,
        progress: &CheckpointProgress,
    ) -> Result<SavedCheckpoint, Error> {
        self.root.save(snapshot.clone(), progress)
    }

    /// Reads what was written, and compares it with what it was written from.
    ///
    /// # Errors
    /// `Damaged` if it is not the same, but for what the format cannot say, or cannot be read.
    pub fn check(
        &self,
        snapshot: &Snapshot,
        saved: &SavedCheckpoint,
        progress: Arc<CheckpointProgress>,
    ) -> Result<Compared, Error> {
        let written = load_one(self.format, &saved.location, &LoadOptions::new().progress(progress))?;
        compare(snapshot, &written.snapshot, self.format).map_err(|difference| {
            let text = format!("{} is not what it was written from: {difference}", saved.location);
            Error::plain(ErrorKind::Damaged, text)
        })
    }
}
