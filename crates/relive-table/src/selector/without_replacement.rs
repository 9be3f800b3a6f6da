//! Every slot once, then every slot again.

use rand_core::Rng;

use super::dense::Dense;
use super::error::PriorityError;
use super::{Pick, Rank, Select, Slot};
use crate::random::index_below;

/// Picks every slot of an epoch with the same probability among those that were not picked in it. When none is left a
/// new epoch begins with all slots. A slot that comes during an epoch joins it. Priorities play no part.
///
/// The slots lie in one array, those already picked in this epoch first: a pick moves its slot over the border, so that
/// every operation takes constant time. 8 bytes per slot.
#[derive(Clone, Debug, Default)]
pub struct WithoutReplacement {
    slots: Dense,
    /// How many were picked in this epoch; they stand at the places before this one.
    picked: usize,
}

impl WithoutReplacement {
    /// Slots that are still to be picked in this epoch; none only if there are no slots at all, or the next pick begins
    /// a new epoch.
    pub fn remaining(&self) -> usize {
        self.slots.len() - self.picked
    }
}

impl Select for WithoutReplacement {
    fn len(&self) -> usize {
        self.slots.len()
    }

    fn admit(&self, _replaced: Option<Slot>, priority: f64) -> Result<Rank, PriorityError> {
        Ok(Rank(priority))
    }

    fn insert(&mut self, slot: Slot, _rank: Rank) -> bool {
        self.slots.push(slot)
    }

    fn update(&mut self, slot: Slot, _rank: Rank) -> bool {
        self.slots.place(slot).is_some()
    }

    fn remove(&mut self, slot: Slot) -> bool {
        let Some(place) = self.slots.place(slot) else { return false };
        if place < self.picked {
            // The last of those picked takes its place, so that the gap is at the border.
            self.picked -= 1;
            self.slots.swap(place, self.picked);
        }
        self.slots.remove(slot).is_some()
    }

    fn pick<R: Rng + ?Sized>(&mut self, rng: &mut R) -> Option<Pick> {
        if self.slots.len() == 0 {
            return None;
        }
        if self.remaining() == 0 {
            self.picked = 0;
        }
        let remaining = self.remaining();
        let place = self.picked + index_below(rng, remaining);
        let slot = self.slots.slot(place)?;
        self.slots.swap(place, self.picked);
        self.picked += 1;
        Some(Pick { slot, probability: 1.0 / remaining as f64 })
    }
}
