//! Inspects a checkpoint by loading all of it, because its contents cannot be determined from a part of the file.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use relive_table::{CheckpointProgress, StoredItem, TableSnapshot};
use relive_tensor::Chunk;

use super::files::FILES;
use super::list::{size_bytes, summary};
use super::name::Time;
use super::{Store, load};
use crate::{Error, Format, Inspection, LoadOptions, Report, TableInspection, TableSummary};

impl Store {
    /// Reads and checks every byte of the checkpoint in `folder`.
    ///
    /// # Errors
    /// `Damaged` if the rules of its tables are damaged, because the rest cannot be interpreted without them; `Io` if
    /// the storage refuses an operation.
    pub(crate) fn verify(folder: &Path, progress: &Arc<CheckpointProgress>) -> Result<Report, Error> {
        let options = LoadOptions::new().salvage(true).progress(Arc::clone(progress));
        let loaded = load::read(folder, &options)?;
        let tables = &loaded.snapshot.tables;
        Ok(Report {
            location: loaded.location,
            files: FILES.iter().filter(|file| folder.join(file).exists()).count() as u64,
            bytes: size_bytes(folder),
            items: tables.iter().map(|table| table.items.len() as u64).sum(),
            chunks: chunks(tables).0,
            losses: loaded.losses,
        })
    }

    /// Shows the checkpoint in `folder`, with up to `sample` items of each table: the first and the last ones.
    ///
    /// # Errors
    /// `Damaged` if it is damaged; `Io` if the storage refuses an operation.
    pub(crate) fn inspect(folder: &Path, sample: usize) -> Result<Inspection, Error> {
        let summary = summary(Time::of_folder(folder), folder)?;
        let loaded = load::read(folder, &LoadOptions::new())?;
        let tables = loaded.snapshot.tables;
        let (num_chunks, chunk_bytes) = chunks(&tables);
        let mut summary = summary;
        (summary.chunks, summary.chunk_bytes) = (Some(num_chunks), Some(chunk_bytes));
        let tables = tables.iter().map(|table| shown(table, sample)).collect();
        Ok(Inspection { location: loaded.location, format: Format::Reverb, summary, tables })
    }
}

fn shown(table: &TableSnapshot, sample: usize) -> TableInspection {
    let (num_chunks, chunk_bytes) = chunks(std::slice::from_ref(table));
    let items = table.items.len();
    let hidden = items.saturating_sub(sample);
    let first = sample.div_ceil(2).min(items);
    let last = table.items.get(first + hidden..).unwrap_or_default();
    let sample = table.items.iter().take(first).chain(last).cloned().collect::<Vec<StoredItem>>();
    let (config, counters) = (Arc::clone(&table.config), table.counters);
    let summary = TableSummary { config, counters, items: items as u64 };
    TableInspection { summary, chunks: num_chunks, chunk_bytes, sample }
}

/// Returns the number of distinct chunks, and their total size in bytes.
fn chunks(tables: &[TableSnapshot]) -> (u64, u64) {
    let mut met: HashSet<*const Chunk> = HashSet::new();
    let mut bytes = 0;
    for chunk in tables.iter().flat_map(|table| &table.items).flat_map(|item| item.data.trajectory.chunks()) {
        if met.insert(Arc::as_ptr(chunk)) {
            bytes += chunk.size_bytes();
        }
    }
    (met.len() as u64, bytes)
}
