//! Inspects the contents of a checkpoint.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, OnceLock};

use relive_table::{CheckpointProgress, StoredItem};
use relive_tensor::Chunk;

use super::{CheckpointSummary, TableSummary};
use crate::losses::Losses;
use crate::manifest::{ItemBlock, ItemColumns, KnownChunks, Manifest, read_manifest, rebuild_some};
use crate::native::{ReadChunks, read_chunks};
use crate::segment::Place;
use crate::storage::Storage;
use crate::{Error, Format, LoadOptions, Loss};

/// The result of inspecting a checkpoint.
#[derive(Debug)]
#[non_exhaustive]
pub struct Inspection {
    /// The path or URL.
    pub location: String,
    /// The format of the checkpoint.
    pub format: Format,
    /// Its summary.
    pub summary: CheckpointSummary,
    /// Its tables.
    pub tables: Vec<TableInspection>,
}

/// The result of inspecting a table of a checkpoint.
#[derive(Debug)]
#[non_exhaustive]
pub struct TableInspection {
    /// The rules, counters and number of items.
    pub summary: TableSummary,
    /// The number of distinct chunks of the table's items. A chunk that two tables share is counted in each of them.
    pub chunks: u64,
    /// The number of stored bytes of these chunks.
    pub chunk_bytes: u64,
    /// Some of the table's items, in order.
    pub sample: Vec<StoredItem>,
}

pub(super) fn inspect(storage: &dyn Storage, name: &str, sample: usize) -> Result<Inspection, Error> {
    let losses = &mut Losses::new(false);
    let Manifest { file, size_bytes, description, chunks, items } = read_manifest(storage, name, losses)?;
    let summary = CheckpointSummary::new(&description, size_bytes);
    let mut blocks: BTreeMap<usize, Vec<ItemBlock>> = BTreeMap::new();
    items.into_iter().for_each(|block| blocks.entry(block.table()).or_default().push(block));
    let mut tables = Vec::new();
    for (number, table) in summary.tables.iter().enumerate() {
        let mut looking =
            ItemPass { storage, file: &file, known: &chunks, met: HashSet::new(), chunk_bytes: 0 };
        let sample = looking.table(table, blocks.remove(&number).unwrap_or_default(), sample)?;
        let (chunks, chunk_bytes) = (looking.met.len() as u64, looking.chunk_bytes);
        tables.push(TableInspection { summary: table.clone(), chunks, chunk_bytes, sample });
    }
    Ok(Inspection { location: file, format: Format::Relive, summary, tables })
}

/// The state of a pass over the items of a table.
struct ItemPass<'a> {
    storage: &'a dyn Storage,
    file: &'a str,
    known: &'a KnownChunks,
    /// The positions of the table's chunks.
    met: HashSet<u32>,
    chunk_bytes: u64,
}

impl ItemPass<'_> {
    fn table(
        &mut self,
        table: &TableSummary,
        blocks: Vec<ItemBlock>,
        sample: usize,
    ) -> Result<Vec<StoredItem>, Error> {
        let sample = sample as u64;
        let is_shown =
            |number: u64| number < sample.div_ceil(2) || number >= table.items.saturating_sub(sample / 2);
        let (mut shown, mut number) = (Vec::new(), 0);
        for block in blocks {
            let offset = block.offset;
            let damaged = |reason: &dyn std::fmt::Display| {
                let table = Some(table.config.name.clone());
                Error::lost(&Loss { table, ..Loss::of(self.file, offset, reason) })
            };
            let columns = block.decode().map_err(|fault| damaged(&fault))?;
            self.count(&columns);
            let wanted = |index: usize| is_shown(number + index as u64);
            let shown_chunks = columns.chunks_by_item().enumerate().filter(|(index, _)| wanted(*index));
            let chunks = self.read(&shown_chunks.flat_map(|(_, chunks)| chunks.iter().copied()).collect())?;
            for item in rebuild_some(&columns, wanted, |position| chunks.get(&position).cloned()) {
                shown.push(item.map_err(|fault| damaged(&fault))?);
            }
            number += columns.len() as u64;
        }
        Ok(shown)
    }

    fn count(&mut self, columns: &ItemColumns) {
        for position in columns.chunks() {
            if self.met.insert(*position) {
                let place = self.known.index_of(*position).and_then(|index| self.known.places().get(index));
                self.chunk_bytes += place.map_or(0, |place| u64::from(place.length));
            }
        }
    }

    fn read(&self, positions: &BTreeSet<u32>) -> Result<BTreeMap<u32, Arc<Chunk>>, Error> {
        let place =
            |position: &u32| Some((*position, *self.known.places().get(self.known.index_of(*position)?)?));
        // If a chunk's description is missing, this is reported as a fault of the item when the item is built.
        let (positions, places): (Vec<u32>, Vec<Place>) = positions.iter().filter_map(place).unzip();
        let (options, progress) = (LoadOptions::new().threads(1), CheckpointProgress::default());
        let ReadChunks { chunks, losses } =
            read_chunks(self.storage, &places, &options, &progress, &Arc::default())?;
        for loss in losses {
            loss.cause.note(&mut Losses::new(false))?;
        }
        let chunk = |(position, chunk): (u32, OnceLock<Arc<Chunk>>)| Some((position, chunk.into_inner()?));
        Ok(positions.into_iter().zip(chunks).filter_map(chunk).collect())
    }
}
