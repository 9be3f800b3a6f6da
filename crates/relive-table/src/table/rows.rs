//! Samples small items by copying their columns.
//!
//! Ordinarily, a sampled item is shared: its reference count is incremented and decremented, and reading it follows
//! pointers to its data and its chunks. For an item of a few hundred bytes, this accounts for most of the cost. Batches
//! therefore copy the columns of such items directly out of the table.

use std::sync::Arc;

use rand_core::Rng;
use relive_tensor::{ColumnLayout, copy_all, touch, touch_starts};
use smallvec::SmallVec;

use crate::item::{Sampled, SampledRow};
use crate::selector::{Pick, Select};
use crate::storage::{KindId, Record, State};
use crate::table::Table;

/// The largest number of samples that are copied in one call.
pub const MAX_ROWS_AT_ONCE: usize = 4_096;

/// The number of items that are copied together: enough to overlap memory requests, and few enough that small items fit
/// into the first-level cache.
const STAGE: usize = 64;

impl Table {
    /// Returns the columns of the newest item that can be copied, or `None` until there is one.
    pub fn row_columns(&self) -> Option<&Arc<[ColumnLayout]>> {
        self.state.contents.items.layouts().newest()
    }

    /// Samples `count` items and copies each column to its place, sample by sample. This requires that the rate limiter
    /// allows `count` samples, that all sampled items are rows with these columns, that there are no extensions, and
    /// that no sample removes its item.
    ///
    /// If these requirements are not met, `others` receives the samples, as from [`sample_many`](Self::sample_many),
    /// which may return fewer than `count`, and the returned value is empty.
    ///
    /// The table determines whether an item can be copied when the item is inserted, and does not recognize every item
    /// that could be copied.
    pub fn sample_rows<R: Rng + ?Sized>(
        &mut self,
        columns: &Arc<[ColumnLayout]>,
        count: usize,
        places: &mut [&mut [u8]],
        rng: &mut R,
        others: &mut Vec<Sampled>,
    ) -> Vec<SampledRow> {
        let Some(kind) = self.copied(columns, count, places) else { return Vec::new() };
        let picks = self.state.pick_many(count, rng);
        if picks.len() == count && self.state.are_all_of(kind, &picks) {
            return self.state.copy_rows(&picks, places);
        }
        self.state.take_many(&picks, others);
        Vec::new()
    }

    /// Returns the kind of the rows, if the table's items can be copied into places for such columns.
    fn copied(&self, columns: &Arc<[ColumnLayout]>, count: usize, places: &[&mut [u8]]) -> Option<KindId> {
        let kind = self.state.contents.items.layouts().kind_of(columns)?;
        let fits = columns.len() == places.len()
            && columns
                .iter()
                .zip(places)
                .all(|(column, place)| column.size_bytes(count) == Some(place.len()));
        let is_simple = self.extensions.is_empty() && self.state.config.max_times_sampled < 1;
        (fits && is_simple && count <= MAX_ROWS_AT_ONCE).then_some(kind)
    }
}

impl State {
    /// Chooses and counts up to `wanted` samples.
    fn pick_many<R: Rng + ?Sized>(&mut self, wanted: usize, rng: &mut R) -> Vec<Pick> {
        let mut picks = Vec::with_capacity(wanted);
        let granted = self.grant(wanted);
        self.contents.sampler.pick_many(granted, rng, &mut picks);
        picks
    }

    /// Checks all picks, without an early exit, so that the loads are independent.
    fn are_all_of(&self, kind: KindId, picks: &[Pick]) -> bool {
        let layouts = self.contents.items.layouts();
        let is_of = |pick: &Pick| {
            let row = self.record_of(pick).and_then(|record| record.row(layouts));
            row.is_some_and(|(_, _, other)| other == kind)
        };
        picks.iter().fold(true, |all, pick| all & is_of(pick))
    }

    fn record_of(&self, pick: &Pick) -> Option<&Record> {
        self.contents.items.get(pick.slot)
    }

    fn copy_rows(&mut self, picks: &[Pick], places: &mut [&mut [u8]]) -> Vec<SampledRow> {
        let mut rows = Vec::with_capacity(picks.len());
        let sizes: SmallVec<[usize; 8]> =
            places.iter().map(|place| place.len() / picks.len().max(1)).collect();
        for (number, stage) in picks.chunks(STAGE).enumerate() {
            self.count_stage(stage, &mut rows);
            let parts = self.parts(stage, places.len());
            touch_starts(parts.iter().copied());
            touch(parts.iter().copied());
            let columns = places.iter_mut().zip(&sizes).zip(parts.chunks(stage.len()));
            for ((place, size), parts) in columns {
                let first = number * STAGE * size;
                copy_all(place.get_mut(first..first + stage.len() * size).unwrap_or_default(), parts, *size);
            }
        }
        rows
    }

    fn count_stage(&mut self, stage: &[Pick], rows: &mut Vec<SampledRow>) {
        let table_size = self.contents.items.len() as u64;
        rows.extend(stage.iter().filter_map(|pick| {
            let record = self.count(pick.slot)?;
            Some(SampledRow {
                key: record.key,
                priority: record.priority,
                probability: pick.probability,
                table_size,
                inserted_at: record.inserted_at,
                times_sampled: record.times_sampled,
            })
        }));
    }

    /// Returns the bytes of the picked items, column by column, and item by item within each column.
    fn parts(&self, stage: &[Pick], columns: usize) -> Parts<'_> {
        let layouts = self.contents.items.layouts();
        let mut parts = Parts::from_elem(&[], stage.len() * columns);
        for (at, pick) in stage.iter().enumerate() {
            let row = self.record_of(pick).and_then(|record| record.row(layouts));
            let Some((row, layout, _)) = row else { continue };
            for column in 0..columns {
                let part = parts.get_mut(column * stage.len() + at);
                if let (Some(part), Some(bytes)) = (part, row.column(layout, column)) {
                    *part = bytes;
                }
            }
        }
        parts
    }
}

/// For a few columns, this needs no heap memory.
type Parts<'a> = SmallVec<[&'a [u8]; 5 * STAGE]>;
