//! Loads a snapshot from records.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use relive_table::{CheckpointProgress, Snapshot, TableSnapshot};
use relive_tensor::{Chunk, Ledger};
use relive_wire::checkpoint;
use relive_wire::reverb::PrioritizedItem;

use super::files::{CHUNKS, DONE, ITEMS, TABLES};
use crate::error::Reason;
use crate::limits::MAX_ITEM_RECORD_BYTES;
use crate::losses::Losses;
use crate::record::RecordReader;
use crate::{Error, LoadOptions, Loaded};

/// Reads the checkpoint in `folder`.
pub(super) fn read(folder: &Path, options: &LoadOptions) -> Result<Loaded, Error> {
    let (losses, ledger) = (Losses::new(options.salvages()), Arc::new(options.ledger()));
    let mut loading = Loading { losses, ledger, ..Loading::default() };
    if !folder.join(DONE).exists() {
        let error = Error::damaged(folder, None, "the checkpoint is incomplete: it has no file DONE");
        loading.losses.note_error(error)?;
    }
    let progress = options.counter();
    loading.read_chunks(&folder.join(CHUNKS), options, &progress)?;
    // A table cannot be created without its rules, so nothing could be salvaged.
    loading.read_tables(&folder.join(TABLES))?;
    let items = folder.join(ITEMS);
    // Checkpoints that have items in the records of their tables have no file of items.
    if items.exists() {
        let read = loading.read_items(&items, &progress);
        read.or_else(|error| loading.losses.note_error(error).map(drop))?;
    }
    loading.check_counts(folder)?;
    let Loading { tables, ledger, losses, .. } = loading;
    let snapshot = Snapshot { tables, ledger, lacks_own_rules: true };
    Ok(Loaded { snapshot, location: folder.to_string_lossy().into_owned(), losses: losses.into_found() })
}

type Chunks = HashMap<u64, Arc<Chunk>>;

/// The limit on the number of chunks that are passed to a disk tier at once, if there is one.
const CHUNKS_AT_ONCE: usize = 256;

/// Chunks are passed to a disk tier once they have this many bytes together. Until then, they occupy memory in addition
/// to the budget. They go to one file, in which each chunk must start before 4 GiB.
const BYTES_AT_ONCE: u64 = 32 << 20;

#[derive(Default)]
struct Loading {
    ledger: Arc<Ledger>,
    losses: Losses,
    chunks: Chunks,
    tables: Vec<TableSnapshot>,
    /// Positions in `tables`.
    by_name: HashMap<String, usize>,
    /// Whether the items are in the records of their tables.
    has_old_items: bool,
}

impl Loading {
    fn read_chunks(
        &mut self,
        path: &Path,
        options: &LoadOptions,
        progress: &CheckpointProgress,
    ) -> Result<(), Error> {
        progress.expect(0, path.metadata().map_or(0, |meta| meta.len()));
        let read = RecordReader::open(path).and_then(|records| self.add_chunks(records, options, progress));
        read.or_else(|error| self.losses.note_error(error).map(drop))
    }

    /// The same chunk may occur twice, because dm-reverb identifies chunks by their addresses.
    fn add_chunks(
        &mut self,
        mut records: RecordReader,
        options: &LoadOptions,
        progress: &CheckpointProgress,
    ) -> Result<(), Error> {
        let (mut read, mut read_bytes) = (Vec::new(), 0);
        while let Some(record) = records.next()? {
            let length = record.len() as u64;
            let chunk = checkpoint::chunk_from_wire(record).map_err(|error| records.damaged(error))?;
            let key = chunk.key();
            let ledger = &self.ledger;
            let chunk =
                self.chunks.entry(key).or_insert_with(|| Arc::new(chunk.with_ledger(Arc::clone(ledger))));
            progress.advance(0, length);
            read.push(Arc::clone(chunk));
            read_bytes += chunk.size_bytes();
            if read.len() >= CHUNKS_AT_ONCE || read_bytes >= BYTES_AT_ONCE {
                options.spill(&read, ledger)?;
                read.clear();
                read_bytes = 0;
            }
        }
        options.spill(&read, &self.ledger)
    }

    fn read_tables(&mut self, path: &Path) -> Result<(), Error> {
        let mut records = RecordReader::open(path)?;
        while let Some(record) = records.next()? {
            let message = checkpoint::read_table(record).map_err(|error| records.damaged(error))?;
            let read = checkpoint::table_from_wire(&message).map_err(|error| records.damaged(error))?;
            let (config, counters) = read;
            let name = config.name.clone();
            let (config, items) = (Arc::new(config), Vec::new());
            self.tables.push(TableSnapshot { config, counters, items, structure: None });
            if self.by_name.insert(name.clone(), self.tables.len() - 1).is_some() {
                return Err(records.damaged(format!("the table `{name}` occurs twice")));
            }
            for item in &message.deprecated_items {
                self.has_old_items = true;
                let added = self.add(&name, item);
                added.or_else(|reason| self.losses.note_item(&name, records.damaged(reason)))?;
            }
        }
        match self.tables.is_empty() {
            true => Err(Error::damaged(path, None, "it has no tables")),
            false => Ok(()),
        }
    }

    fn read_items(&mut self, path: &Path, progress: &CheckpointProgress) -> Result<(), Error> {
        let mut records = RecordReader::open(path)?.limit(MAX_ITEM_RECORD_BYTES);
        while let Some(record) = records.next()? {
            let message = checkpoint::read_item(record).map_err(|error| records.damaged(error))?;
            if self.has_old_items {
                return Err(records.damaged(format!("{TABLES} also contains items")));
            }
            let added = self.add(&message.table, &message);
            added.or_else(|reason| self.losses.note_item(&message.table, records.damaged(reason)))?;
            progress.advance(1, 0);
        }
        Ok(())
    }

    fn add(&mut self, table: &str, message: &PrioritizedItem) -> Result<(), Reason> {
        let unknown =
            || format!("item {} belongs to table `{table}`, which {TABLES} does not have", message.key);
        let position = self.by_name.get(table).copied();
        let items = position.and_then(|at| self.tables.get_mut(at)).map(|table| &mut table.items);
        let items = items.ok_or_else(unknown)?;
        let sequence = items.len() as u64;
        let chunks = &self.chunks;
        items.push(checkpoint::item_from_wire(message, sequence, |key| chunks.get(&key).cloned())?);
        Ok(())
    }

    /// Detects an uncompressed file that was truncated between two records.
    fn check_counts(&mut self, folder: &Path) -> Result<(), Error> {
        for table in &mut self.tables {
            let counters = &mut table.counters;
            let items = i64::try_from(table.items.len()).unwrap_or(i64::MAX);
            if self.has_old_items {
                // Servers of these versions did not count deletes.
                counters.deletes = counters.inserts.saturating_sub(items).max(0);
                counters.inserts = counters.deletes.saturating_add(items);
            }
            let counted = counters.inserts.saturating_sub(counters.deletes);
            if counted != items {
                let name = &table.config.name;
                let reason = format!("the count of table `{name}` is {counted} items, but there are {items}");
                let missing = u64::try_from(counted.saturating_sub(items)).unwrap_or(0);
                self.losses.note_missing(name, missing, Error::damaged(folder, None, reason))?;
                // Lost items are counted as deleted from the table.
                counters.inserts = counters.inserts.max(items);
                counters.deletes = counters.inserts - items;
            }
        }
        Ok(())
    }
}
