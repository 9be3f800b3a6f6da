//! Which chunks are cold: a hand that goes round over all tables' items.

use std::sync::Arc;

use relive_tensor::Chunk;

use crate::table::TableCore;

/// Places of items that are looked at under one lock: some tens of microseconds.
const SLOTS_PER_LOCK: usize = 256;

/// Where the hand is. Items are passed in the order of their places, which is about that of their insertion. A chunk
/// that was read since the hand last passed stays for another round.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    table: usize,
    slot: usize,
}

/// What one step of the hand has found.
#[derive(Debug, Default)]
pub(super) struct Step {
    /// Chunks to be stored, each once.
    pub(super) cold: Vec<Arc<Chunk>>,
    /// Their bytes.
    pub(super) bytes: u64,
    /// Whether the hand has come round.
    pub(super) is_round: bool,
}

impl Sweep {
    /// Moves on until chunks of `bytes` are found for which `is_cold` holds, `places` or all tables are passed.
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
    /// Adds chunks that need not be looked for.
    pub(super) fn extend(&mut self, chunks: Vec<Arc<Chunk>>) {
        self.bytes += chunks.iter().map(|chunk| chunk.size_bytes()).sum::<u64>();
        self.cold.extend(chunks);
    }

    fn add(&mut self, chunks: &[Arc<Chunk>], is_cold: impl Fn(&Chunk) -> bool) {
        for chunk in chunks {
            // Items that share a chunk mostly lie side by side.
            let is_known = self.cold.iter().rev().take(SHARED_WITHIN).any(|known| Arc::ptr_eq(known, chunk));
            if !is_known && is_cold(chunk) {
                self.bytes += chunk.size_bytes();
                self.cold.push(Arc::clone(chunk));
            }
        }
    }
}

/// Chunks back to which one is looked for. One that is stored twice for all that costs disk, nothing else.
const SHARED_WITHIN: usize = 16;
