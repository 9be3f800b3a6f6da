//! What a list tells of a checkpoint.

use std::path::Path;

use relive_wire::checkpoint;

use super::files::{DONE, FILES, TABLES};
use super::name::Time;
use crate::format::location_of;
use crate::record::RecordReader;
use crate::{CheckpointInfo, CheckpointSize, Error, Format};

pub(super) fn info(time: Time, folder: &Path) -> CheckpointInfo {
    CheckpointInfo {
        location: location_of(folder),
        format: Format::Reverb,
        written_at: time.timestamp(),
        size: size(folder).map_err(|error| error.to_string()),
    }
}

/// By the records of the tables: those of items and chunks are not looked at.
fn size(folder: &Path) -> Result<CheckpointSize, Error> {
    if !folder.join(DONE).exists() {
        return Err(Error::damaged(folder, None, "this is no whole checkpoint: it has no file DONE"));
    }
    let mut size = CheckpointSize::default();
    let mut records = RecordReader::open(&folder.join(TABLES))?;
    while let Some(record) = records.next()? {
        let message = checkpoint::read_table(record).map_err(|error| records.damaged(error))?;
        let (_, counters) = checkpoint::table_from_wire(&message).map_err(|error| records.damaged(error))?;
        let counted = counters.inserts.saturating_sub(counters.deletes);
        let items = match message.deprecated_items.len() as u64 {
            0 => u64::try_from(counted).unwrap_or(0),
            old => old,
        };
        size.tables += 1;
        size.items += items;
    }
    let bytes = |file: &str| folder.join(file).metadata().map_or(0, |meta| meta.len());
    size.own_bytes = FILES.iter().map(|file| bytes(file)).sum();
    size.total_bytes = size.own_bytes;
    Ok(size)
}
