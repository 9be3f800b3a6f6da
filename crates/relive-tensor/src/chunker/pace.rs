//! Measures how often items are created.

use crate::limits::PACED_CHUNK_BYTES;

/// Counts the steps between items.
///
/// Items that are sequences are created every few steps. For such an item, a chunk that ends where the item ends is as
/// suitable as one chunk per step, but is looked up, counted and described only once. Chunks therefore have as many
/// steps as there were between the last two items, and the rows of one call need not be divided among chunks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// The number of steps since the last item.
    steps: u32,
    /// The number of steps between the last two items.
    gap: u32,
}

impl Pace {
    pub(super) fn add_steps(&mut self, steps: u32) {
        self.steps = self.steps.saturating_add(steps);
    }

    /// Records that items were created. Several items at the same step count once.
    pub(super) fn note_items(&mut self) {
        if self.steps > 0 {
            self.gap = std::mem::take(&mut self.steps);
        }
    }

    /// Returns the number of steps in a chunk that ends with an item, if `given` steps of `row_bytes` bytes are
    /// appended at once.
    pub(super) fn reach(self, given: u32, row_bytes: u64) -> u32 {
        let fitting = u32::try_from(PACED_CHUNK_BYTES / row_bytes.max(1)).unwrap_or(u32::MAX);
        self.gap.max(given).min(fitting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_as_long_as_the_distance_between_items() {
        let mut pace = Pace::default();
        assert_eq!(pace.reach(1, 8), 1);
        pace.add_steps(20);
        pace.note_items();
        assert_eq!(pace.reach(1, 8), 20);
        pace.add_steps(7);
        pace.add_steps(3);
        pace.note_items();
        pace.note_items();
        assert_eq!((pace.reach(1, 8), pace.reach(100, 8)), (10, 100));
    }

    #[test]
    fn a_chunk_stays_small() {
        let pace = Pace { steps: 0, gap: 1_000 };
        assert_eq!(pace.reach(1, PACED_CHUNK_BYTES / 4), 4);
        assert_eq!(pace.reach(1, PACED_CHUNK_BYTES + 1), 0);
    }
}
