//! Lists of checkpoints.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use relive_wire::checkpoint;

use super::files::{DONE, FILES, TABLES};
use super::folders::Folders;
use super::name::Time;
use super::{Store, is_whole};
use crate::record::RecordReader;
use crate::{CheckpointInfo, CheckpointSummary, Error, Format, TableSummary};

impl Store {
    /// Returns the complete checkpoints in `root`, oldest first, or none if it does not exist: first those whose names
    /// are not times, and then those with the names that their writers gave them.
    ///
    /// # Errors
    /// The folder cannot be read. If a checkpoint is unreadable, the error is in its [`CheckpointInfo::summary`].
    pub(crate) fn list(root: &Path) -> Result<[Vec<CheckpointInfo>; 2], Error> {
        let found = Folders::list(root)?;
        let infos = |folders: Vec<(Time, PathBuf)>| {
            folders.into_iter().map(|(time, folder)| info(time, &folder)).collect()
        };
        Ok([found.renamed, found.whole].map(infos))
    }

    /// Logs a warning for each folder in `root` that has the name of a checkpoint that is newer than all complete ones,
    /// but is incomplete: its writer was interrupted, or somebody copied only a part of it.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(crate) fn warn_of_incomplete(root: &Path) -> Result<(), Error> {
        let found = Folders::list(root)?;
        for (_, folder) in found.incomplete.iter().filter(|ignored| found.whole.last() < Some(*ignored)) {
            let location = folder.display();
            tracing::warn!(%location, "ignoring an incomplete checkpoint, because it has no file {DONE}");
        }
        Ok(())
    }
}

fn info(time: Time, folder: &Path) -> CheckpointInfo {
    CheckpointInfo {
        location: folder.to_string_lossy().into_owned(),
        format: Format::Reverb,
        written_at: Some(time.timestamp()),
        size_bytes: size_bytes(folder),
        summary: summary(time, folder),
    }
}

/// Reads the summary from the records of the tables, without reading the records of items and chunks.
pub(super) fn summary(time: Time, folder: &Path) -> Result<CheckpointSummary, Error> {
    if !is_whole(folder) {
        return Err(Error::damaged(
            folder,
            None,
            format!("the checkpoint is incomplete: it has no file {DONE}"),
        ));
    }
    let mut tables = Vec::new();
    let mut records = RecordReader::open(&folder.join(TABLES))?;
    while let Some(record) = records.next()? {
        let message = checkpoint::read_table(record).map_err(|error| records.damaged(error))?;
        let (config, counters) =
            checkpoint::table_from_wire(&message).map_err(|error| records.damaged(error))?;
        let counted = counters.inserts.saturating_sub(counters.deletes);
        // Checkpoints that have items in the records of their tables were written by versions that did not count
        // deletes.
        let items = match message.deprecated_items.len() as u64 {
            0 => u64::try_from(counted).unwrap_or(0),
            old => old,
        };
        tables.push(TableSummary { config: Arc::new(config), counters, items });
    }
    Ok(CheckpointSummary {
        created_at: time.timestamp(),
        software: None,
        items: tables.iter().map(|table| table.items).sum(),
        tables,
        chunks: None,
        chunk_bytes: None,
        segments: 0,
        total_bytes: size_bytes(folder),
    })
}

pub(super) fn size_bytes(folder: &Path) -> u64 {
    FILES.iter().map(|file| folder.join(file).metadata().map_or(0, |meta| meta.len())).sum()
}
