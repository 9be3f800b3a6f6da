//! Samples small items by copying their columns.
//!
//! Ordinarily, a sampled item is shared: its reference count is incremented and decremented, and reading it follows
//! pointers to its data and its chunks. For an item of a few hundred bytes, this accounts for most of the cost. Batches
//! therefore copy the columns of such items directly out of the table.

use std::sync::Arc;

use rand_core::Rng;
use relive_tensor::{ColumnLayout, Row, RowLayout};
use smallvec::SmallVec;

use crate::item::{Sampled, SampledRow};
use crate::selector::{Pick, Select};
use crate::storage::{KindId, State};
use crate::table::Table;

/// The largest number of samples that are copied in one call.
pub const MAX_ROWS_AT_ONCE: usize = 8_192;

/// The number of items that are copied together: enough to overlap memory requests, and few enough that small items stay
/// in the cache.
const STAGE: usize = 64;

impl Table {
    /// Returns the columns of the newest item that can be copied, or `None` until there is one.
    pub fn row_columns(&self) -> Option<&Arc<[ColumnLayout]>> {
        self.state.contents.items.layouts().newest()
    }

    /// Samples `count` items and copies each column to its place, sample by sample. This requires that the rate limiter
    /// allows `count` samples, that all sampled items are rows with the given columns, that there are no extensions,
    /// and that no sample removes its item.
    ///
    /// If these requirements are not met, `others` receives the samples, as from [`sample_many`](Self::sample_many),
    /// which may return fewer than `count`, and the returned value is empty.
    ///
    /// When an item is inserted, the table determines whether the item can be copied. It does not recognize every item
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
        if picks.len() == count && self.state.copy_rows(kind, &picks, places) {
            return self.state.count_all(&picks);
        }
        self.state.take_many(&picks, others);
        Vec::new()
    }

    /// Returns the kind of the rows if the table's items can be copied to destinations for such columns.
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

    /// Copies the columns of the picked items to their places. Copies nothing and returns false if one of the items is
    /// not a row of this kind.
    fn copy_rows(&self, kind: KindId, picks: &[Pick], places: &mut [&mut [u8]]) -> bool {
        let Some(rows) = self.rows_of(kind, picks) else { return false };
        let sizes: SmallVec<[usize; 8]> =
            places.iter().map(|place| place.len() / rows.len().max(1)).collect();
        let mut copied = 0;
        let mut following = rows.chunks(STAGE);
        following.next().into_iter().for_each(prefetch);
        for stage in rows.chunks(STAGE) {
            following.next().into_iter().for_each(prefetch);
            // Rows of chunks of different lengths differ in their layouts, although their columns are the same.
            for (rows, layout) in with_one_layout(stage) {
                for (column, (place, size)) in places.iter_mut().zip(&sizes).enumerate() {
                    let to = place.get_mut(copied * size..(copied + rows.len()) * size);
                    layout.copy_column(column, rows.iter().map(|(row, _)| *row), to.unwrap_or_default());
                }
                copied += rows.len();
            }
        }
        true
    }

    /// Returns the picked items as rows, or `None` if one of them is not a row of this kind. Reads all records without
    /// an early exit, so that the loads are independent.
    fn rows_of(&self, kind: KindId, picks: &[Pick]) -> Option<Vec<PlacedRow<'_>>> {
        let items = &self.contents.items;
        items.prefetch_entries(picks.iter().map(|pick| pick.slot));
        let mut rows = Vec::with_capacity(picks.len());
        rows.extend(picks.iter().filter_map(|pick| {
            let (row, layout, other) = items.get(pick.slot)?.row(items.layouts())?;
            (other == kind).then_some((row, layout))
        }));
        (rows.len() == picks.len()).then_some(rows)
    }

    fn count_all(&mut self, picks: &[Pick]) -> Vec<SampledRow> {
        let table_size = self.contents.items.len() as u64;
        let mut rows = Vec::with_capacity(picks.len());
        rows.extend(picks.iter().filter_map(|pick| {
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
        rows
    }
}

/// A row and its layout.
type PlacedRow<'a> = (&'a Row, &'a RowLayout);

/// Prefetches the columns of rows.
fn prefetch(rows: &[PlacedRow<'_>]) {
    for (rows, layout) in with_one_layout(rows) {
        layout.prefetch(&rows.iter().map(|(row, _)| *row));
    }
}

/// Splits rows into runs of the same layout.
fn with_one_layout<'a, 'b>(
    rows: &'b [PlacedRow<'a>],
) -> impl Iterator<Item = (&'b [PlacedRow<'a>], &'a RowLayout)> {
    let runs = rows.chunk_by(|(_, one), (_, next)| core::ptr::eq(*one, *next));
    runs.filter_map(|run| Some((run, run.first()?.1)))
}
