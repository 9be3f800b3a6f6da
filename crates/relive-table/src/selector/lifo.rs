//! Picks the newest slot first.

use rand_core::Rng;

use super::error::PriorityError;
use super::order::Order;
use super::{Pick, Rank, Select, Slot};

/// Picks the slot that was inserted last, with probability 1. Ignores priorities.
#[derive(Clone, Debug, Default)]
pub struct Lifo(Order);

impl Select for Lifo {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn admit(&self, _replaced: Option<Slot>, priority: f64) -> Result<Rank, PriorityError> {
        Ok(Rank(priority))
    }

    fn insert(&mut self, slot: Slot, _rank: Rank) -> bool {
        self.0.push_newest(slot)
    }

    fn update(&mut self, slot: Slot, _rank: Rank) -> bool {
        self.0.contains(slot)
    }

    fn remove(&mut self, slot: Slot) -> bool {
        self.0.remove(slot)
    }

    fn pick<R: Rng + ?Sized>(&mut self, _rng: &mut R) -> Option<Pick> {
        self.0.newest().map(|slot| Pick { slot, probability: 1.0 })
    }
}
