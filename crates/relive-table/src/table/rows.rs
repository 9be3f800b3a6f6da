//! Sampling small items by copying their columns.
//!
//! An item that is handed out is shared: its reference count is raised and lowered, and whoever reads it takes the way by its data and its
//! chunks. Of an item of some hundred bytes these ways are most of the cost. Where batches are wanted, its columns are copied out of
//! the table at once.

use std::sync::Arc;

use rand_core::Rng;
use relive_tensor::{ColumnLayout, copy, touch, touch_starts};
use smallvec::SmallVec;

use super::state::State;
use crate::record::{KindId, Record};
use crate::selector::{Pick, Select};
use crate::{Sampled, SampledRow, Table};

/// The most samples that are copied at once.
pub const MAX_ROWS_AT_ONCE: usize = 4_096;

/// Items that are copied side by side: enough to keep a processor's memory requests busy, and small ones fit its first cache.
const STAGE: usize = 64;

impl Table {
    /// What the columns of the newest item are like that can be copied; none before there is one.
    pub fn row_columns(&self) -> Option<&Arc<[ColumnLayout]>> {
        self.state.contents.items.layouts().newest()
    }

    /// Samples `count` items, if the rate limiter allows as many, all have these columns and lie as rows, and copying is all that their
    /// sampling causes: no extension looks on, none is deleted. Each column is copied to its place, one sample behind the other.
    ///
    /// Otherwise `others` gets the samples that were taken, as [`sample_many`](Self::sample_many) would give them: all, some if the
    /// rate limiter allowed no more, or none; and what is given is empty.
    ///
    /// The table decides about items as they were inserted: not all items that could be copied are known to be.
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

    /// What kind of rows they are, if the table's items can be copied into such places.
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

    /// Looks at each, without a way out at the first that differs: none has to wait for the one before.
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

    /// Brings near what is going to be copied.
    fn touch_rows(&self, picks: &[Pick]) {
        let layouts = self.contents.items.layouts();
        let rows = || picks.iter().filter_map(|pick| self.record_of(pick)?.row(layouts));
        touch_starts(rows().map(|(row, ..)| row.near()));
        touch(rows().flat_map(|(row, layout, _)| row.parts(layout)));
    }

    fn copy_rows(&mut self, picks: &[Pick], places: &mut [&mut [u8]]) -> Vec<SampledRow> {
        let mut rows = Vec::with_capacity(picks.len());
        let table_size = self.contents.items.len() as u64;
        let sizes: SmallVec<[usize; 8]> =
            places.iter().map(|place| place.len() / picks.len().max(1)).collect();
        for (number, stage) in picks.chunks(STAGE).enumerate() {
            self.touch_rows(stage);
            for (sample, pick) in (number * STAGE..).zip(stage) {
                let Some(record) = self.count(pick.slot) else { continue };
                rows.push(SampledRow {
                    key: record.key,
                    priority: record.priority,
                    probability: pick.probability,
                    table_size,
                    inserted_at: record.inserted_at,
                    times_sampled: record.times_sampled,
                });
                let layouts = self.contents.items.layouts();
                let Some((row, layout, _)) = self.record_of(pick).and_then(|record| record.row(layouts))
                else {
                    continue;
                };
                for (column, (place, size)) in places.iter_mut().zip(&sizes).enumerate() {
                    let place = place.get_mut(sample * size..(sample + 1) * size);
                    if let (Some(place), Some(bytes)) = (place, row.column(layout, column)) {
                        copy(place, bytes);
                    }
                }
            }
        }
        rows
    }
}
