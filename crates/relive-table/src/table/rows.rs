//! Sampling small items by copying them.
//!
//! An item that is handed out is shared: its reference count is raised and lowered, and whoever reads it takes the way by its data and its
//! chunk. Of a few hundred bytes these ways are most of the cost. Where only the bytes are wanted, they are copied out of the table at once.

use rand_core::Rng;
use relive_tensor::{PlainLayout, touch, touch_starts};

use super::state::State;
use crate::record::{LayoutId, Record};
use crate::selector::{Pick, Select};
use crate::{Sampled, SampledRow, Table};

/// The most samples that are copied at once.
pub const MAX_ROWS_AT_ONCE: usize = 1_024;

/// Items that are copied side by side: enough to keep a processor's memory requests busy, and small ones fit its first cache.
const STAGE: usize = 64;

impl Table {
    /// Samples as many items as `bytes` has room for, if the rate limiter allows as many, they are of `layout`, and copying is all that their
    /// sampling causes: no extension looks on, none is deleted. Their bytes are copied to `bytes`, one behind the other.
    ///
    /// Otherwise `others` gets the samples that were taken, as [`sample_many`](Self::sample_many) would give them: all, some if the
    /// rate limiter allowed no more, or none; and what is given is empty.
    ///
    /// The table decides about items as they were inserted: not all items that are of a layout are known to be.
    pub fn sample_rows<R: Rng + ?Sized>(
        &mut self,
        layout: &PlainLayout,
        bytes: &mut [u8],
        rng: &mut R,
        others: &mut Vec<Sampled>,
    ) -> Vec<SampledRow> {
        let Some((layout, size)) = self.copied(layout, bytes.len()) else { return Vec::new() };
        let wanted = bytes.len() / size;
        let picks = self.state.pick_many(wanted, rng);
        if picks.len() == wanted && self.state.are_all_of(layout, &picks) {
            return self.state.copy_rows(layout, &picks, bytes.chunks_exact_mut(size));
        }
        self.state.take_many(&picks, others);
        Vec::new()
    }

    /// The layout, and the bytes of such an item, where its items can be copied into so many bytes.
    fn copied(&self, layout: &PlainLayout, room: usize) -> Option<(LayoutId, usize)> {
        let id = self.state.contents.items.layouts().find(layout)?;
        let size = layout.size_bytes().filter(|&size| size > 0)?;
        let fits = room.is_multiple_of(size) && room / size <= MAX_ROWS_AT_ONCE;
        let is_simple = self.extensions.is_empty() && self.state.config.max_times_sampled < 1;
        (fits && is_simple).then_some((id, size))
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
    fn are_all_of(&self, layout: LayoutId, picks: &[Pick]) -> bool {
        let is_of = |pick: &Pick| self.record_of(pick).is_some_and(|record| record.is_of(layout));
        picks.iter().fold(true, |all, pick| all & is_of(pick))
    }

    fn record_of(&self, pick: &Pick) -> Option<&Record> {
        self.contents.items.get(pick.slot)
    }

    /// Brings near what is going to be copied.
    fn touch_rows(&self, layout: LayoutId, picks: &[Pick]) {
        let rows = || picks.iter().filter_map(|pick| self.record_of(pick)?.plain(layout));
        touch_starts(rows());
        touch(rows());
    }

    fn copy_rows<'a>(
        &mut self,
        layout: LayoutId,
        picks: &[Pick],
        mut places: impl Iterator<Item = &'a mut [u8]>,
    ) -> Vec<SampledRow> {
        let mut rows = Vec::with_capacity(picks.len());
        for stage in picks.chunks(STAGE) {
            self.touch_rows(layout, stage);
            let copy = |(pick, place): (&Pick, &mut [u8])| {
                let table_size = self.contents.items.len() as u64;
                let record = self.count(pick.slot)?;
                place.copy_from_slice(record.plain(layout)?);
                Some(SampledRow {
                    key: record.key,
                    priority: record.priority,
                    probability: pick.probability,
                    table_size,
                    times_sampled: record.times_sampled,
                })
            };
            rows.extend(stage.iter().zip(&mut places).filter_map(copy));
        }
        rows
    }
}
