//! What every selector promises.

use rand_core::Rng;
use smallvec::SmallVec;

use super::error::PriorityError;

/// The place of an item in its table. A slot is reused after its item has left.
pub type Slot = u32;

/// A priority that a selector has accepted, in the form in which that selector stores it.
///
/// Only [`Select::admit`] makes one. It is meant for the selector that made it, and for its next change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rank(pub(crate) f64);

/// Ranks of updates that are done side by side.
pub type Ranks = SmallVec<[Rank; MAX_SIDE_BY_SIDE]>;

/// Updates that are done side by side: enough to keep a processor's memory requests busy, and to meet in the nodes of
/// trees.
pub const MAX_SIDE_BY_SIDE: usize = 64;

/// What a selector chose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pick {
    /// The slot that was chosen.
    pub slot: Slot,
    /// The probability with which it was chosen, in (0, 1].
    pub probability: f64,
}

/// A set of slots with priorities, and a rule that picks one of them.
///
/// Changes come in two halves so that a table can change two selectors or none: [`admit`](Self::admit) says
/// whether a priority is acceptable and changes nothing, and the change that follows it cannot fail for its
/// priority.
pub trait Select {
    /// Number of slots in the set.
    fn len(&self) -> usize;

    /// Whether the set is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Checks a priority for a slot to be inserted (`replaced` is `None`) or to be updated.
    ///
    /// # Errors
    /// [`PriorityError`], with the selector's reason, if it cannot hold the priority.
    fn admit(&self, replaced: Option<Slot>, priority: f64) -> Result<Rank, PriorityError>;

    /// Adds a slot as the newest. False, and no change, if it is there already.
    fn insert(&mut self, slot: Slot, rank: Rank) -> bool;

    /// Gives a slot another priority. False, and no change, if it is not there.
    fn update(&mut self, slot: Slot, rank: Rank) -> bool;

    /// The ranks of `priorities`, if the updates of slots to them are certain to be accepted one after the other,
    /// whatever slots they are. If in doubt it says no, and each update is to be admitted on its own.
    fn admit_many(&self, priorities: &[f64]) -> Option<Ranks> {
        priorities.iter().map(|&priority| self.admit(None, priority).ok()).collect()
    }

    /// What so many calls of [`update`](Self::update) do, done side by side where that is faster. All slots are there;
    /// of one that comes several times the last rank counts.
    fn update_many(&mut self, slots: &[Slot], ranks: &[Rank]) {
        for (&slot, &rank) in slots.iter().zip(ranks) {
            let updated = self.update(slot, rank);
            debug_assert!(updated, "slot {slot} is in no selector");
        }
    }

    /// Takes a slot out. False, and no change, if it is not there.
    fn remove(&mut self, slot: Slot) -> bool;

    /// Chooses a slot and leaves it in the set; `None` if and only if the set is empty. What a choice changes, if
    /// anything, is the chances of later ones.
    ///
    /// Draws at most one 64-bit word, and how many it draws depends on the kind of the selector and on whether
    /// it is empty, never on the word's value.
    fn pick<R: Rng + ?Sized>(&mut self, rng: &mut R) -> Option<Pick>;

    /// The sum of all weights, to which the probability of each pick is in proportion. The number of slots by default.
    fn total_weight(&self) -> f64 {
        self.len() as f64
    }

    /// The slots that are picked next, if each pick is taken out and the newest slots stay: as many as can be told at
    /// once, up to `count`. None by default.
    fn next_to_leave(&self, count: usize) -> impl Iterator<Item = Slot> {
        let _ = count;
        core::iter::empty()
    }

    /// Appends to `picks` what so many calls of [`pick`](Self::pick) would return, found side by side where that is
    /// faster. Nothing if the set is empty.
    fn pick_many<R: Rng + ?Sized>(&mut self, count: usize, rng: &mut R, picks: &mut Vec<Pick>) {
        picks.extend((0..count).map_while(|_| self.pick(rng)));
    }
}
