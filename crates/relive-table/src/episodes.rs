//! How many chunks of each episode the table's items refer to.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use relive_tensor::Trajectory;

/// Episodes with at least one reference, each item counting once for each of its distinct chunks.
#[derive(Debug, Default)]
pub(crate) struct Episodes {
    references: HashMap<u64, u64, FixedState>,
}

impl Episodes {
    pub(crate) fn len(&self) -> usize {
        self.references.len()
    }

    pub(crate) fn add(&mut self, trajectory: &Trajectory) {
        for chunk in trajectory.chunks() {
            *self.references.entry(chunk.range().episode_id).or_insert(0) += 1;
        }
    }

    /// Returns how many episodes have lost their last reference.
    pub(crate) fn remove(&mut self, trajectory: &Trajectory) -> u64 {
        let mut ended = 0;
        for chunk in trajectory.chunks() {
            let Entry::Occupied(mut count) = self.references.entry(chunk.range().episode_id) else {
                continue;
            };
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
                ended += 1;
            }
        }
        ended
    }
}
