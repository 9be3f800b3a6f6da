//! Looking at a checkpoint of either format.

use relive_table::CheckpointProgress;

use super::load::{chosen, path_of};
use crate::{Catalog, Error, Format, Inspection, Report, reverb};

/// Reads and checks every byte of the checkpoint at `location`; of a folder or bucket, of the newest one. `progress`
/// counts items and bytes.
///
/// # Errors
/// `Location` if there is no checkpoint; `Damaged` if so much is that nothing can be told of it. All other damage is
/// in the report.
pub fn verify(location: &str, progress: &std::sync::Arc<CheckpointProgress>) -> Result<Report, Error> {
    match chosen(location)? {
        (Format::Relive, checkpoint) => Catalog::open(&checkpoint)?.verify(progress),
        (Format::Reverb, checkpoint) => reverb::Store::verify(&path_of(&checkpoint), progress),
    }
}

/// Shows the checkpoint at `location`, with up to `sample` items of each table: the first ones and the last ones. Of
/// a folder or bucket the newest one is shown.
///
/// A checkpoint in dm-reverb's format is loaded for that.
///
/// # Errors
/// `Location` if there is no checkpoint; `Damaged` if what is to be shown is not whole; `Io`.
pub fn inspect(location: &str, sample: usize) -> Result<Inspection, Error> {
    match chosen(location)? {
        (Format::Relive, checkpoint) => Catalog::open(&checkpoint)?.inspect(sample),
        (Format::Reverb, checkpoint) => reverb::Store::inspect(&path_of(&checkpoint), sample),
    }
}
