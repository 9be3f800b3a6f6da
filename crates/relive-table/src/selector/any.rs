//! A selector of any kind.

use rand_core::Rng;

use super::error::PriorityError;
use super::{
    Direction, Fifo, Heap, Lifo, Pick, Prioritized, Rank, Ranks, Select, SelectorKind, Slot, Uniform,
    WithoutReplacement, heap, prioritized,
};

/// A selector of any kind. An empty selector owns no memory.
#[derive(Clone, Debug)]
pub enum Selector {
    /// See [`SelectorKind::Fifo`].
    Fifo(Fifo),
    /// See [`SelectorKind::Lifo`].
    Lifo(Lifo),
    /// See [`SelectorKind::Uniform`].
    Uniform(Uniform),
    /// See [`SelectorKind::WithoutReplacement`].
    WithoutReplacement(WithoutReplacement),
    /// See [`SelectorKind::MinHeap`] and [`SelectorKind::MaxHeap`].
    Heap(Heap),
    /// See [`SelectorKind::Prioritized`].
    Prioritized(Prioritized),
}

macro_rules! each {
    ($selector:expr, $inner:ident => $call:expr) => {
        match $selector {
            Selector::Fifo($inner) => $call,
            Selector::Lifo($inner) => $call,
            Selector::Uniform($inner) => $call,
            Selector::WithoutReplacement($inner) => $call,
            Selector::Heap($inner) => $call,
            Selector::Prioritized($inner) => $call,
        }
    };
}

impl SelectorKind {
    /// Validates a single priority without regard to the sum of all weights, which the selector itself checks.
    ///
    /// `Fifo`, `Lifo`, `Uniform` and `WithoutReplacement` ignore priorities and accept all of them.
    ///
    /// # Errors
    /// The priority is NaN and the selector is a heap; or the selector is prioritized and the priority is NaN, negative
    /// or infinite, or its weight is not finite.
    pub fn check_priority(&self, priority: f64) -> Result<(), PriorityError> {
        match *self {
            Self::Fifo | Self::Lifo | Self::Uniform | Self::WithoutReplacement => Ok(()),
            Self::MinHeap | Self::MaxHeap => heap::rank_of(*self, priority).map(drop),
            Self::Prioritized { exponent } => prioritized::weight_of(exponent, priority).map(drop),
        }
    }
}

impl Selector {
    /// Creates an empty selector.
    pub fn new(kind: SelectorKind) -> Self {
        match kind {
            SelectorKind::Fifo => Self::Fifo(Fifo::default()),
            SelectorKind::Lifo => Self::Lifo(Lifo::default()),
            SelectorKind::Uniform => Self::Uniform(Uniform::default()),
            SelectorKind::WithoutReplacement => Self::WithoutReplacement(WithoutReplacement::default()),
            SelectorKind::MinHeap => Self::Heap(Heap::new(Direction::Min)),
            SelectorKind::MaxHeap => Self::Heap(Heap::new(Direction::Max)),
            SelectorKind::Prioritized { exponent } => Self::Prioritized(Prioritized::new(exponent)),
        }
    }
}

impl Select for Selector {
    fn len(&self) -> usize {
        each!(self, inner => inner.len())
    }

    fn admit(&self, replaced: Option<Slot>, priority: f64) -> Result<Rank, PriorityError> {
        each!(self, inner => inner.admit(replaced, priority))
    }

    fn insert(&mut self, slot: Slot, rank: Rank) -> bool {
        each!(self, inner => inner.insert(slot, rank))
    }

    fn update(&mut self, slot: Slot, rank: Rank) -> bool {
        each!(self, inner => inner.update(slot, rank))
    }

    fn admit_many(&self, priorities: &[f64]) -> Option<Ranks> {
        each!(self, inner => inner.admit_many(priorities))
    }

    fn update_many(&mut self, slots: &[Slot], ranks: &[Rank]) {
        each!(self, inner => inner.update_many(slots, ranks));
    }

    fn remove(&mut self, slot: Slot) -> bool {
        each!(self, inner => inner.remove(slot))
    }

    fn total_weight(&self) -> f64 {
        each!(self, inner => inner.total_weight())
    }

    fn pick<R: Rng + ?Sized>(&mut self, rng: &mut R) -> Option<Pick> {
        each!(self, inner => inner.pick(rng))
    }

    fn next_to_leave(&self, count: usize) -> impl Iterator<Item = Slot> {
        let fifo = match self {
            Self::Fifo(inner) => Some(inner.next_to_leave(count)),
            _ => None,
        };
        fifo.into_iter().flatten()
    }

    fn pick_many<R: Rng + ?Sized>(&mut self, count: usize, rng: &mut R, picks: &mut Vec<Pick>) {
        each!(self, inner => inner.pick_many(count, rng, picks));
    }
}
