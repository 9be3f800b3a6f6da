//! A set of slots in an array without gaps, so that a slot can be drawn by index.

use super::Slot;

const ABSENT: u32 = u32::MAX;

/// Slots in an array, and the position of each slot in it: 8 bytes per slot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dense {
    slots: Vec<Slot>,
    places: Vec<u32>,
}

/// The effect of a removal: the last slot moved from position `last` to position `hole`.
pub(crate) struct Moved {
    pub(crate) hole: usize,
    pub(crate) last: usize,
}

impl Dense {
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn slot(&self, place: usize) -> Option<Slot> {
        self.slots.get(place).copied()
    }

    pub(crate) fn place(&self, slot: Slot) -> Option<usize> {
        self.places.get(slot as usize).filter(|&&place| place != ABSENT).map(|&place| place as usize)
    }

    /// Appends a slot at position `len`. Returns false and changes nothing if it is already in the set.
    pub(crate) fn push(&mut self, slot: Slot) -> bool {
        if slot == Slot::MAX || self.place(slot).is_some() {
            return false;
        }
        if self.places.len() <= slot as usize {
            self.places.resize(slot as usize + 1, ABSENT);
        }
        let place = u32::try_from(self.slots.len()).expect("there are fewer than 2^32 - 1 distinct slots");
        self.places[slot as usize] = place;
        self.slots.push(slot);
        true
    }

    /// Swaps the slots at two positions.
    pub(crate) fn swap(&mut self, a: usize, b: usize) {
        if a != b && a.max(b) < self.slots.len() {
            self.slots.swap(a, b);
            self.places.swap(self.slots[a] as usize, self.slots[b] as usize);
        }
    }

    /// Removes a slot and fills the gap with the last one.
    pub(crate) fn remove(&mut self, slot: Slot) -> Option<Moved> {
        let hole = self.place(slot)?;
        self.slots.swap_remove(hole);
        if let Some(&moved) = self.slots.get(hole) {
            self.places[moved as usize] = self.places[slot as usize];
        }
        self.places[slot as usize] = ABSENT;
        Some(Moved { hole, last: self.slots.len() })
    }
}
