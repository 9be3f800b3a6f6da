//! Finds cold chunks: a clock hand that passes over the items of all tables.

use std::sync::Arc;

use relive_tensor::Chunk;

use crate::table::TableCore;

/// The number of slots that are scanned under one lock: a few tens of microseconds of work.
const SLOTS_PER_LOCK: usize = 256;

/// The position of the hand. The hand passes items in the order of their slots, which is roughly insertion order. A
/// chunk that has been read since the hand last passed it stays in memory for another round.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    table: usize,
    slot: usize,
}

/// The result of one step of the hand.
#[derive(Debug, Default)]
pub(super) struct Step {
    /// Chunks to store, without duplicates.
    pub(super) cold: Vec<Arc<Chunk>>,
    /// The size of these chunks.
    pub(super) bytes: u64,
    /// Whether the hand has completed a round.
    pub(super) is_round: bool,
}

impl Sweep {
    /// Advances until the hand has found `bytes` of chunks for which `is_cold` holds, or has passed `places` slots or
    /// all tables.
    pub(super) fn step(
        &mut self,
        tables: &[TableCore],
        bytes: u64,
        places: usize,
        is_cold: impl Fn(&Chunk) -> bool,
    ) -> Step {
        let mut step = Step::default();
        for _ in 0..places.div_ceil(SLOTS_PER_LOCK) {
            if step.bytes >= bytes || step.is_round {
                break;
            }
            self.pass(tables, &is_cold, &mut step);
        }
        step
    }

    fn pass(&mut self, tables: &[TableCore], is_cold: impl Fn(&Chunk) -> bool, step: &mut Step) {
        let Some(table) = tables.get(self.table) else {
            *self = Self::default();
            step.is_round = true;
            return;
        };
        let end = self.slot.saturating_add(SLOTS_PER_LOCK);
        let is_end = table.read(|state| {
            for item in state.table.items_in_slots(self.slot..end) {
                step.add(item.data.trajectory.chunks(), &is_cold);
            }
            end >= state.table.num_slots()
        });
        (self.table, self.slot) = if is_end { (self.table + 1, 0) } else { (self.table, end) };
    }
}

impl Step {
    /// Adds chunks that were found without the hand.
    pub(super) fn extend(&mut self, chunks: Vec<Arc<Chunk>>) {
        self.bytes += chunks.iter().map(|chunk| chunk.size_bytes()).sum::<u64>();
        self.cold.extend(chunks);
    }

    fn add(&mut self, chunks: &[Arc<Chunk>], is_cold: impl Fn(&Chunk) -> bool) {
        for chunk in chunks {
            // Only the newest entries are searched, because items that share a chunk are mostly adjacent.
            let is_known = self.cold.iter().rev().take(SHARED_WITHIN).any(|known| Arc::ptr_eq(known, chunk));
            if !is_known && is_cold(chunk) {
                self.bytes += chunk.size_bytes();
                self.cold.push(Arc::clone(chunk));
            }
        }
    }
}

/// How far back to search for duplicates. Storing a chunk twice only costs disk space.
const SHARED_WITHIN: usize = 16;
