//! Saves a snapshot as records.

use flate2::Compression;
use relive_table::{Snapshot, StoredItem, TableSnapshot};
use relive_wire::{Message, checkpoint};

use super::draft::{Draft, Records};
use super::files::{CHUNKS, ITEMS, TABLES};
use super::shared_chunks::SharedChunks;
use crate::{Error, Tier};

/// Tables and items consist of repetitive numbers, which compress well.
const DESCRIPTIONS: Compression = Compression::fast();

/// Payloads are already compressed. An uncompressed stream is written about ten times as fast as one with the lowest
/// level.
const PAYLOADS: Compression = Compression::none();

/// Writes `snapshot` record by record, without copying all of it.
///
/// Chunks in the disk tier `tier` are checked before they are written, because data that the disk has corrupted must
/// not be written with a new, matching checksum.
pub(super) fn write(draft: &mut Draft<'_>, snapshot: &Snapshot, tier: Option<&Tier>) -> Result<(), Error> {
    let mut tables = draft.records(TABLES, DESCRIPTIONS)?;
    for table in &snapshot.tables {
        tables.append(&checkpoint::table_to_wire(table).encode_to_vec())?;
    }
    draft.finish(tables)?;
    let mut writer = ItemWriter {
        items: draft.records(ITEMS, DESCRIPTIONS)?,
        chunks: draft.records(CHUNKS, PAYLOADS)?,
        shared: SharedChunks::default(),
        record: Vec::new(),
        tier,
    };
    snapshot.tables.iter().try_for_each(|table| writer.table(table))?;
    let ItemWriter { items, chunks, .. } = writer;
    draft.finish(items)?;
    draft.finish(chunks)
}

/// Writes items, and writes chunks at their first occurrence.
struct ItemWriter<'a> {
    items: Records,
    chunks: Records,
    shared: SharedChunks<'a>,
    /// The current record, in reused memory.
    record: Vec<u8>,
    tier: Option<&'a Tier>,
}

impl<'a> ItemWriter<'a> {
    fn table(&mut self, table: &'a TableSnapshot) -> Result<(), Error> {
        table.items.iter().try_for_each(|item| self.item(&table.config.name, item))
    }

    fn item(&mut self, table: &str, item: &'a StoredItem) -> Result<(), Error> {
        for chunk in item.data.trajectory.chunks() {
            let Some(key) = self.shared.insert(chunk) else { continue };
            self.record.clear();
            let _in_memory = self.tier.map_or(Ok(None), |tier| tier.checked_frame(chunk))?;
            let coded = checkpoint::put_chunk(chunk, key, &mut self.record);
            coded.map_err(|error| Error::damaged(self.chunks.path(), None, error))?;
            self.chunks.append(&self.record)?;
        }
        let message = checkpoint::item_to_wire(table, item, |chunk| self.shared.key_of(chunk));
        self.record.clear();
        message.encode(&mut self.record).expect("a vector has room");
        self.items.append(&self.record)
    }
}
