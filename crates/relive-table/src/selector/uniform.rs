//! Uniform choice.

use rand_core::Rng;

use super::dense::Dense;
use super::error::PriorityError;
use super::{Pick, Rank, Select, Slot};
use crate::random::index_below;

/// Picks every slot with the same probability, 1 / len. Ignores priorities.
#[derive(Clone, Debug, Default)]
pub struct Uniform(Dense);

impl Select for Uniform {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn admit(&self, _replaced: Option<Slot>, priority: f64) -> Result<Rank, PriorityError> {
        Ok(Rank(priority))
    }

    fn insert(&mut self, slot: Slot, _rank: Rank) -> bool {
        self.0.push(slot)
    }

    fn update(&mut self, slot: Slot, _rank: Rank) -> bool {
        self.0.place(slot).is_some()
    }

    fn remove(&mut self, slot: Slot) -> bool {
        self.0.remove(slot).is_some()
    }

    fn pick<R: Rng + ?Sized>(&mut self, rng: &mut R) -> Option<Pick> {
        if self.0.len() == 0 {
            return None;
        }
        let slot = self.0.slot(index_below(rng, self.0.len()))?;
        Some(Pick { slot, probability: 1.0 / self.0.len() as f64 })
    }

    fn pick_many<R: Rng + ?Sized>(&mut self, count: usize, rng: &mut R, picks: &mut Vec<Pick>) {
        let len = self.0.len();
        if len == 0 {
            return;
        }
        let probability = 1.0 / len as f64;
        let slots = (0..count).filter_map(|_| self.0.slot(index_below(rng, len)));
        picks.reserve(count);
        picks.extend(slots.map(|slot| Pick { slot, probability }));
    }
}
