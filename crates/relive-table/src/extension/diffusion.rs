//! Spreads a high priority to neighboring steps.

use std::collections::BTreeSet;

use thiserror::Error;

use crate::extension::{Context, Extension};
use crate::item::{ItemData, ItemView};

/// The largest number of neighbors on each side. Every insert and update can change that many priorities on each side
/// while it holds the table's lock.
pub const MAX_DIFFUSION_NEIGHBORS: usize = 1024;

/// When an item is inserted or updated, raises the priority of its n-th neighbor to at least `priority * decay^n`.
///
/// The neighbors of an item are the items of its episode, in the order of their first steps. With preceding neighbors
/// only, this is prioritized sequence experience replay (Brittain et al. 2019, <https://arxiv.org/abs/1905.12726>,
/// section 4), which more often replays the steps that led to a surprise.
#[derive(Clone, Debug)]
pub struct PriorityDiffusion {
    decay: f64,
    before: usize,
    after: usize,
    in_time: BTreeSet<Position>,
}

/// The reason why a diffusion cannot be created.
#[derive(Clone, Copy, Debug, Error, PartialEq)]
pub enum DiffusionError {
    /// The decay is outside [0, 1].
    #[error("the decay of a priority diffusion must be from 0 to 1, got {actual}")]
    Decay {
        /// The requested decay.
        actual: f64,
    },
    /// Too many neighbors.
    #[error("a priority diffusion can reach at most {limit} neighbors on either side, got {actual}")]
    Neighbors {
        /// The requested number.
        actual: usize,
        /// The largest number, [`MAX_DIFFUSION_NEIGHBORS`].
        limit: usize,
    },
}

/// The first step of an item. Items that begin at the same step are ordered by key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    episode_id: u64,
    step: i64,
    key: u64,
}

impl Position {
    /// Returns the first row of the first column. Every item has at least one row.
    fn of(item: &ItemData) -> Option<Self> {
        let column = item.trajectory.column(0)?;
        let first = column.slices().next()?;
        let range = column.chunk_of(&first)?.range();
        let step = i64::from(range.start) + i64::from(first.offset);
        Some(Self { episode_id: range.episode_id, step, key: item.key })
    }
}

impl PriorityDiffusion {
    /// Creates a diffusion that reaches the `before` preceding and `after` following neighbors of each item.
    ///
    /// # Errors
    /// The decay is outside [0, 1], or there are more than [`MAX_DIFFUSION_NEIGHBORS`] neighbors on one side.
    pub fn new(decay: f64, before: usize, after: usize) -> Result<Self, DiffusionError> {
        if !(0.0..=1.0).contains(&decay) {
            return Err(DiffusionError::Decay { actual: decay });
        }
        let actual = before.max(after);
        if actual > MAX_DIFFUSION_NEIGHBORS {
            return Err(DiffusionError::Neighbors { actual, limit: MAX_DIFFUSION_NEIGHBORS });
        }
        Ok(Self { decay, before, after, in_time: BTreeSet::new() })
    }

    fn diffuse(&self, context: &mut Context<'_>, from: Position, priority: f64) {
        let same_episode = |position: &&Position| position.episode_id == from.episode_id;
        let earlier = self.in_time.range(..from).rev().take_while(same_episode).take(self.before);
        self.raise(context, earlier, priority);
        let following = (core::ops::Bound::Excluded(from), core::ops::Bound::Unbounded);
        let later = self.in_time.range(following).take_while(same_episode).take(self.after);
        self.raise(context, later, priority);
    }

    fn raise<'a>(
        &self,
        context: &mut Context<'_>,
        neighbors: impl Iterator<Item = &'a Position>,
        priority: f64,
    ) {
        let mut share = priority;
        for neighbor in neighbors {
            share *= self.decay;
            context.raise_priority(neighbor.key, share);
        }
    }
}

impl Extension for PriorityDiffusion {
    fn on_insert(&mut self, context: &mut Context<'_>, item: ItemView<'_>) {
        let Some(position) = Position::of(item.data) else { return };
        self.in_time.insert(position);
        self.diffuse(context, position, item.priority);
    }

    fn on_update(&mut self, context: &mut Context<'_>, item: ItemView<'_>, _previous: f64) {
        let Some(position) = Position::of(item.data) else { return };
        self.diffuse(context, position, item.priority);
    }

    fn on_delete(&mut self, _context: &mut Context<'_>, item: ItemView<'_>) {
        if let Some(position) = Position::of(item.data) {
            self.in_time.remove(&position);
        }
    }

    fn on_restore(&mut self, item: ItemView<'_>) {
        self.in_time.extend(Position::of(item.data));
    }

    fn on_reset(&mut self) {
        self.in_time.clear();
    }
}
