//! Picks without replacement: every slot once in each epoch.

use rand_core::Rng;

use super::dense::Dense;
use super::error::PriorityError;
use super::{Pick, Rank, Select, Slot};
use crate::random::index_below;

/// Picks uniformly among the slots that have not been picked in this epoch. Once all slots have been picked, a new
/// epoch begins with all of them. New slots join the current epoch. Ignores priorities.
///
/// The slots are in one array, in which those already picked in this epoch come first. Picking a slot moves it across
/// the boundary between the two groups, so every operation takes constant time. The selector needs 8 bytes per slot.
#[derive(Clone, Debug, Default)]
pub struct WithoutReplacement {
    slots: Dense,
    /// The number of slots that have been picked in this epoch. They are at the positions below this number.
    picked: usize,
}

impl WithoutReplacement {
    /// Returns the number of slots that are still to be picked in this epoch. It is 0 if there are no slots, or if the
    /// next pick begins a new epoch.
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
            // The last picked slot fills the gap, so that the gap moves to the border.
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
