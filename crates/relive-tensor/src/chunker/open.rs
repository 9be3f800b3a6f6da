//! The open chunk, which is being filled.

use crate::chunk::SequenceRange;

/// The state of a chunk before it is cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub(super) key: u64,
    pub(super) range: SequenceRange,
    /// The number of steps for which a column has a row.
    pub(super) steps: u32,
    pub(super) columns: u32,
    pub(super) size_bytes: u64,
    /// Whether an item needs the open chunk.
    pub(super) is_awaited: bool,
}

impl Open {
    pub(super) fn new(key: u64, episode_id: u64, step: i32) -> Self {
        let range = SequenceRange { episode_id, start: step, end: step, sparse: false };
        Self { key, range, steps: 0, columns: 0, size_bytes: 0, is_awaited: false }
    }

    /// Returns whether a row of `step` belongs to an existing step.
    pub(super) fn continues(&self, step: i32) -> bool {
        self.steps > 0 && self.range.end == step
    }

    /// Adds `rows` steps, starting with number `first`, and returns how many of them are new.
    pub(super) fn add_steps(&mut self, first: i32, rows: u32) -> u32 {
        let is_same = self.continues(first);
        let follows = self.steps == 0 || is_same || self.range.end.checked_add(1) == Some(first);
        self.range.sparse |= !follows;
        self.range.end = first.saturating_add(i32::try_from(rows - 1).unwrap_or(i32::MAX));
        let added = rows - u32::from(is_same);
        self.steps += added;
        added
    }
}
