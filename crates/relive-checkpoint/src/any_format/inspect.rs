//! Inspects a checkpoint in either format.

use relive_table::CheckpointProgress;

use super::load::{named, none_there, path_of, with_chosen};
use crate::{Catalog, Error, Format, Inspection, Report, reverb};

/// Reads and checks every byte of the checkpoint at `location`, or of the newest one in a folder or bucket. `progress`
/// counts items and bytes.
///
/// # Errors
/// `Location` if there is no checkpoint; `Damaged` if nothing intact is left to report on. Any other damage is listed
/// in the report.
pub fn verify(location: &str, progress: &std::sync::Arc<CheckpointProgress>) -> Result<Report, Error> {
    let verify = |format, checkpoint: &str| match format {
        Format::Relive => Catalog::open(checkpoint)?.verify(progress),
        Format::Reverb => reverb::Store::verify(&path_of(checkpoint), progress),
    };
    with_chosen(|| named(location), verify, Report::is_whole)?.ok_or_else(|| none_there(location))
}

/// Shows the checkpoint at `location`, with up to `sample` items of each table: the first and the last ones. For a
/// folder or bucket, shows the newest one.
///
/// This loads a checkpoint in dm-reverb's format.
///
/// # Errors
/// `Location` if there is no checkpoint; `Damaged` if the shown parts are damaged; `Io` if the storage refuses an
/// operation.
pub fn inspect(location: &str, sample: usize) -> Result<Inspection, Error> {
    let inspect = |format, checkpoint: &str| match format {
        Format::Relive => Catalog::open(checkpoint)?.inspect(sample),
        Format::Reverb => reverb::Store::inspect(&path_of(checkpoint), sample),
    };
    with_chosen(|| named(location), inspect, |_| true)?.ok_or_else(|| none_there(location))
}
