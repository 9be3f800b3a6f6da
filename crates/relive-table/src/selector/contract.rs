//! The contract of all selectors.

use rand_core::Rng;
use smallvec::SmallVec;

use super::error::PriorityError;

/// The position of an item in its table. A slot is reused after its item has left the table.
pub type Slot = u32;

/// A priority that a selector has accepted, in the form that the selector stores.
///
/// Only [`Select::admit`] creates a rank. A rank is valid only for the next change of the selector that created it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rank(pub(crate) f64);

/// The ranks of updates that are processed together.
pub type Ranks = SmallVec<[Rank; MAX_SIDE_BY_SIDE]>;

/// The number of updates that are processed together: enough to overlap the processor's memory requests and to share
/// nodes of trees.
pub const MAX_SIDE_BY_SIDE: usize = 64;

/// A selector's choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pick {
    /// The slot that was chosen.
    pub slot: Slot,
    /// The probability with which it was chosen, in (0, 1].
    pub probability: f64,
}

/// A set of slots with priorities, and a rule for picking one of them.
///
/// A change consists of two parts, so that a table can change either both of its selectors or neither:
/// [`admit`](Self::admit) validates the priority and changes nothing; the change that follows cannot fail because of
/// the priority.
pub trait Select {
    /// Returns the number of slots in the set.
    fn len(&self) -> usize;

    /// Returns whether the set is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Validates a priority for an insert (`replaced` is `None`) or an update.
    ///
    /// # Errors
    /// [`PriorityError`] with the selector's reason.
    fn admit(&self, replaced: Option<Slot>, priority: f64) -> Result<Rank, PriorityError>;

    /// Adds a slot as the newest one. Returns false and changes nothing if the slot is already in the set.
    fn insert(&mut self, slot: Slot, rank: Rank) -> bool;

    /// Changes the priority of a slot. Returns false and changes nothing if the slot is not in the set.
    fn update(&mut self, slot: Slot, rank: Rank) -> bool;

    /// Returns the ranks of `priorities` if updating any slots to these priorities is certain to be accepted, or `None`
    /// if each update must be admitted individually.
    fn admit_many(&self, priorities: &[f64]) -> Option<Ranks> {
        priorities.iter().map(|&priority| self.admit(None, priority).ok()).collect()
    }

    /// Has the same effect as a sequence of calls to [`update`](Self::update), but may interleave them to be faster.
    /// All slots must be in the set. If a slot is repeated, its last rank counts.
    fn update_many(&mut self, slots: &[Slot], ranks: &[Rank]) {
        for (&slot, &rank) in slots.iter().zip(ranks) {
            let updated = self.update(slot, rank);
            debug_assert!(updated, "slot {slot} is in no selector");
        }
    }

    /// Removes a slot. Returns false and changes nothing if the slot is not in the set.
    fn remove(&mut self, slot: Slot) -> bool;

    /// Chooses a slot and leaves it in the set. Returns `None` if and only if the set is empty. A pick changes nothing
    /// except the probabilities of later picks.
    ///
    /// Draws at most one 64-bit random word. Whether it draws one depends only on the kind of the selector and on
    /// whether the selector is empty.
    fn pick<R: Rng + ?Sized>(&mut self, rng: &mut R) -> Option<Pick>;

    /// Returns the sum of all weights. The probability of picking a slot is its weight divided by this sum. The default
    /// is the number of slots.
    fn total_weight(&self) -> f64 {
        self.len() as f64
    }

    /// Returns the slots that will be picked next, provided that each picked slot is then removed: at most `count`
    /// slots, and only as many as can be predicted cheaply. The default implementation returns none.
    fn next_to_leave(&self, count: usize) -> impl Iterator<Item = Slot> {
        let _ = count;
        core::iter::empty()
    }

    /// Appends to `picks` the results of `count` calls to [`pick`](Self::pick), which may be interleaved to be faster.
    /// Appends nothing if the set is empty.
    fn pick_many<R: Rng + ?Sized>(&mut self, count: usize, rng: &mut R, picks: &mut Vec<Pick>) {
        picks.extend((0..count).map_while(|_| self.pick(rng)));
    }
}
