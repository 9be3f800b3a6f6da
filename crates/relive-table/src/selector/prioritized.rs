//! Picks items in proportion to a power of their priority.

use rand_core::Rng;
use smallvec::SmallVec;

use super::dense::Dense;
use super::error::PriorityError;
use super::sum_tree::{Descent, SumTree};
use super::{MAX_SIDE_BY_SIDE, Pick, Rank, Ranks, Select, SelectorKind, Slot};
use crate::random::{index_below, unit};

/// The largest sum of all weights that a prioritized selector accepts. It is half of the largest finite number, so that
/// rounding cannot make the sum infinite, regardless of the order of the additions.
pub const MAX_TOTAL_WEIGHT: f64 = f64::MAX / 2.0;

/// The number of picks that descend the tree together: enough to overlap the processor's memory requests.
const SIDE_BY_SIDE: usize = 64;

/// Picks a slot with probability weight / total, where weight = priority ^ exponent, and 0 for priority 0. If all
/// weights are 0, the pick is uniform.
///
/// Weights and sums are 64-bit floats. Every change and every pick takes log8(len) steps. The selector needs 17 bytes
/// per slot.
#[derive(Clone, Debug)]
pub struct Prioritized {
    exponent: f64,
    members: Dense,
    /// The weights by position in `members`.
    weights: SumTree,
}

/// Returns the weight of a priority, which is finite and not negative.
pub(super) fn weight_of(exponent: f64, priority: f64) -> Result<f64, PriorityError> {
    let selector = SelectorKind::Prioritized { exponent };
    if priority.is_nan() {
        return Err(PriorityError::Nan { selector });
    }
    if priority < 0.0 {
        return Err(PriorityError::Negative { selector, priority });
    }
    if priority.is_infinite() {
        return Err(PriorityError::Infinite { selector });
    }
    // This includes 0 ^ 0 and 0 raised to a negative power, because priority 0 means that an item must not be sampled.
    let weight = if priority == 0.0 { 0.0 } else { priority.powf(exponent) };
    if weight.is_finite() { Ok(weight) } else { Err(PriorityError::Weight { selector, priority }) }
}

impl Prioritized {
    /// Creates an empty selector. `exponent` must be finite.
    pub fn new(exponent: f64) -> Self {
        Self { exponent, members: Dense::default(), weights: SumTree::default() }
    }

    fn pick_at(&self, place: usize, total: f64) -> Option<Pick> {
        let probability = self.weights.weight(place) / total;
        self.members.slot(place).map(|slot| Pick { slot, probability })
    }

    fn pick_among_equals<R: Rng + ?Sized>(&self, rng: &mut R) -> Option<Pick> {
        let slot = self.members.slot(index_below(rng, self.members.len()))?;
        Some(Pick { slot, probability: 1.0 / self.members.len() as f64 })
    }
}

impl Select for Prioritized {
    fn len(&self) -> usize {
        self.members.len()
    }

    fn admit(&self, replaced: Option<Slot>, priority: f64) -> Result<Rank, PriorityError> {
        let weight = weight_of(self.exponent, priority)?;
        let replaced = replaced.and_then(|slot| self.members.place(slot));
        let released = replaced.map_or(0.0, |place| self.weights.weight(place));
        let others = self.weights.total() - released;
        if others + weight > MAX_TOTAL_WEIGHT {
            let selector = SelectorKind::Prioritized { exponent: self.exponent };
            return Err(PriorityError::Total { selector, priority, weight, others, limit: MAX_TOTAL_WEIGHT });
        }
        Ok(Rank(weight))
    }

    fn insert(&mut self, slot: Slot, rank: Rank) -> bool {
        let inserted = self.members.push(slot);
        if inserted {
            self.weights.push(rank.0);
        }
        inserted
    }

    fn update(&mut self, slot: Slot, rank: Rank) -> bool {
        let Some(place) = self.members.place(slot) else { return false };
        self.weights.set(place, rank.0);
        true
    }

    fn admit_many(&self, priorities: &[f64]) -> Option<Ranks> {
        let weights: Ranks = priorities
            .iter()
            .map(|&priority| weight_of(self.exponent, priority).ok().map(Rank))
            .collect::<Option<_>>()?;
        // The weights that are replaced are not subtracted, so the order of the updates does not matter. Only half of
        // the limit is used because sums are rounded.
        let most = weights.iter().fold(self.weights.total(), |sum, rank| sum + rank.0);
        (most <= MAX_TOTAL_WEIGHT / 2.0).then_some(weights)
    }

    fn update_many(&mut self, slots: &[Slot], ranks: &[Rank]) {
        let places: SmallVec<[usize; MAX_SIDE_BY_SIDE]> =
            slots.iter().filter_map(|&slot| self.members.place(slot)).collect();
        debug_assert_eq!(places.len(), slots.len(), "all slots are there");
        let weights = ranks.iter().map(|rank| rank.0);
        self.weights.set_many(places.into_iter().zip(weights));
    }

    fn remove(&mut self, slot: Slot) -> bool {
        let Some(moved) = self.members.remove(slot) else { return false };
        let last = self.weights.weight(moved.last);
        self.weights.pop();
        if moved.hole != moved.last {
            self.weights.set(moved.hole, last);
        }
        true
    }

    fn total_weight(&self) -> f64 {
        self.weights.total()
    }

    fn pick<R: Rng + ?Sized>(&mut self, rng: &mut R) -> Option<Pick> {
        if self.members.len() == 0 {
            return None;
        }
        let total = self.weights.total();
        if total == 0.0 {
            return self.pick_among_equals(rng);
        }
        let place = self.weights.find(unit(rng) * total)?;
        self.pick_at(place, total)
    }

    fn pick_many<R: Rng + ?Sized>(&mut self, count: usize, rng: &mut R, picks: &mut Vec<Pick>) {
        let total = self.weights.total();
        if total == 0.0 {
            picks.extend((0..count).map_while(|_| self.pick(rng)));
            return;
        }
        let mut left = count;
        while left > 0 {
            let mut places = [Descent::default(); SIDE_BY_SIDE];
            let places = &mut places[..left.min(SIDE_BY_SIDE)];
            places.iter_mut().for_each(|place| *place = Descent::to(unit(rng) * total));
            self.weights.find_all(places);
            picks.extend(places.iter().filter_map(|place| self.pick_at(place.index(), total)));
            left -= places.len();
        }
    }
}
