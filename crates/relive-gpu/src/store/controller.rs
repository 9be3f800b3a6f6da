//! Which rows are free, which are selectable, and which is evicted next: the controller's decisions under its lock.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};

use super::options::{Removal, Trajectory};
use super::order::{Order, Row};
use super::random::SplitMix;
use super::shard::Shard;
use super::snapshot::Snapshot;
use crate::bytes::{narrow, wide};
use crate::memory::claims::{self, NOBODY};
use crate::memory::identity::Identity;
use crate::memory::segment::Segment;
use crate::metrics::{Eviction, Metrics};
use relive_gpu_protocol::pin::{self, RowState, Stamp};

/// A row and the generation of the trajectory in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) row: u64,
    pub(crate) generation: u64,
}

/// The state of allocation and removal. The part that other processes see is in the segment, which only the controller
/// changes.
#[derive(Debug)]
pub(crate) struct Controller {
    /// Free rows, in order of allocation.
    pub(super) free: VecDeque<u64>,
    pub(super) order: Order,
    pub(super) random: SplitMix,
    /// The number of trajectories that became selectable so far.
    pub(super) committed: u64,
    exhausted: Exhausted,
    changed: Changed,
}

/// What is known about trajectories that were sampled the maximum number of times.
#[derive(Debug, Default)]
struct Exhausted {
    /// The number of exhausted trajectories so far, as of the last time that all rows were read; `None` before that, and
    /// when a reader has ended, because it may have ended before it counted a trajectory.
    seen: Option<u64>,
    /// The exhausted trajectories that were pinned then, in the order of their rows.
    pinned: Vec<Place>,
}

/// The rows whose weights may have changed since the last query, each once.
#[derive(Debug)]
struct Changed {
    rows: Vec<u64>,
    noted: Vec<bool>,
}

impl Changed {
    fn note(&mut self, row: u64) {
        if !std::mem::replace(&mut self.noted[narrow(row)], true) {
            self.rows.push(row);
        }
    }
}

impl Controller {
    /// Creates the state of a new segment: all rows are free.
    pub(super) fn new(removal: &Removal, capacity: u64, seed: u64) -> Self {
        Self {
            free: (0..capacity).collect(),
            order: Order::new(removal, capacity),
            random: SplitMix::new(seed),
            committed: 0,
            exhausted: Exhausted::default(),
            changed: Changed { rows: Vec::new(), noted: vec![false; narrow(capacity)] },
        }
    }

    /// Continues from a checkpoint; the segment's arrays are already restored.
    pub(super) fn restore(&mut self, segment: &Segment, snapshot: &Snapshot) {
        self.free = snapshot.free.iter().copied().collect();
        self.random = SplitMix::new(snapshot.random);
        self.committed = snapshot.committed;
        let ordered = snapshot.order.iter().copied();
        let rows: Vec<u64> = if snapshot.order.is_empty() {
            snapshot.rows.iter().map(|row| row.row).collect()
        } else {
            ordered.collect()
        };
        for row in rows {
            let order_row = self.row(segment, row);
            self.order.insert(order_row);
            self.changed.note(row);
        }
        let limit = segment.header().shape.max_times_sampled;
        let exhausted = snapshot.rows.iter().filter(|row| limit > 0 && row.sampled >= limit).count();
        segment.exhausted().store(wide(exhausted), Ordering::Release);
    }

    /// Takes a free row, or the row of the next victim.
    pub(super) fn allocate(&mut self, segment: &Segment, metrics: &Metrics) -> Option<Place> {
        if self.free.is_empty() {
            self.evict(segment, metrics, Eviction::NoFree);
        }
        let row = self.free.pop_front()?;
        let state = &segment.states()[narrow(row)];
        let generation = Stamp::from_word(state.load(Ordering::Relaxed)).generation + 1;
        state.store(Stamp::new(RowState::Writing, generation).word(), Ordering::SeqCst);
        Some(Place { row, generation })
    }

    /// Returns a row that was being written, without making it selectable.
    pub(super) fn abort(&mut self, segment: &Segment, place: Place) {
        let free = Stamp::new(RowState::Free, place.generation);
        segment.states()[narrow(place.row)].store(free.word(), Ordering::SeqCst);
        self.free.push_back(place.row);
    }

    /// Makes a written row selectable.
    pub(super) fn commit(&mut self, segment: &Segment, place: Place, length: u32, weight: f32) {
        let (at, weight) = (narrow(place.row), without_sign(weight));
        segment.lengths()[at].store(length, Ordering::Relaxed);
        segment.inserted()[at].store(self.committed, Ordering::Release);
        segment.sampled()[at].store(0, Ordering::Relaxed);
        let stamp = Stamp::new(RowState::Selectable, place.generation);
        segment.states()[at].store(stamp.word(), Ordering::SeqCst);
        segment.weights()[at].store(weight.to_bits(), Ordering::Release);
        self.order.insert(Row { row: place.row, inserted: self.committed, weight });
        self.committed += 1;
        segment.committed().store(self.committed, Ordering::Relaxed);
        segment.note_change();
        self.changed.note(place.row);
    }

    /// Changes a trajectory's weight, unless another trajectory has taken its row in the meantime.
    pub(super) fn reweigh(&mut self, segment: &Segment, place: Place, weight: f32) -> bool {
        let (at, weight) = (narrow(place.row), without_sign(weight));
        let selectable = Stamp::new(RowState::Selectable, place.generation);
        if segment.states()[at].load(Ordering::Relaxed) != selectable.word() {
            return false;
        }
        let row = self.row(segment, place.row);
        segment.weights()[at].store(weight.to_bits(), Ordering::SeqCst);
        // A reader that exhausts the trajectory at the same time sets its weight to 0 after counting, so at least one
        // of the two sees the other's change.
        let limit = segment.header().shape.max_times_sampled;
        if limit > 0 && segment.sampled()[at].load(Ordering::SeqCst) >= limit {
            segment.weights()[at].store(0, Ordering::SeqCst);
        }
        segment.note_change();
        self.order.reweigh(row, weight);
        self.changed.note(place.row);
        true
    }

    /// Frees the rows of all exhausted trajectories, or of the next victim. Returns `false` if all candidates are
    /// pinned, or there are none.
    pub(super) fn evict(&mut self, segment: &Segment, metrics: &Metrics, reason: Eviction) -> bool {
        if self.evict_exhausted(segment, metrics) {
            return true;
        }
        let order = &self.order;
        let victim = order.first(&mut self.random, |row| try_evict(segment, row));
        let Some(row) = victim else { return false };
        self.release(segment, row);
        metrics.evicted(reason);
        true
    }

    /// Frees this trajectory's row. Returns `false` if the trajectory is pinned or no longer exists.
    pub(super) fn evict_this(
        &mut self,
        segment: &Segment,
        metrics: &Metrics,
        place: Place,
        reason: Eviction,
    ) -> bool {
        let stamp = Stamp::from_word(segment.states()[narrow(place.row)].load(Ordering::Relaxed));
        let gone = stamp.generation != place.generation || !try_evict(segment, place.row);
        if !gone {
            self.release(segment, place.row);
            metrics.evicted(reason);
        }
        !gone
    }

    /// Frees the rows of trajectories that were sampled the maximum number of times.
    fn evict_exhausted(&mut self, segment: &Segment, metrics: &Metrics) -> bool {
        let limit = segment.header().shape.max_times_sampled;
        if limit == 0 {
            return false;
        }
        // The number is read first, so that a trajectory that is counted in the meantime is found the next time.
        let seen = Some(segment.exhausted().load(Ordering::Acquire));
        let before = self.free.len();
        let candidates = std::mem::take(&mut self.exhausted.pinned);
        let candidates =
            if seen == self.exhausted.seen { candidates } else { exhausted_rows(segment, limit) };
        self.exhausted.seen = seen;
        for place in candidates {
            if !is_selectable(segment, place) {
                continue;
            }
            if try_evict(segment, place.row) {
                self.release(segment, place.row);
                metrics.evicted(Eviction::Exhausted);
            } else {
                self.exhausted.pinned.push(place);
            }
        }
        self.free.len() > before
    }

    /// Makes the next eviction read all rows, because a reader has ended.
    pub(super) fn forget_exhausted(&mut self) {
        self.exhausted.seen = None;
    }

    /// Frees the row of an evicted trajectory.
    fn release(&mut self, segment: &Segment, row: u64) {
        let at = narrow(row);
        let order_row = self.row(segment, row);
        self.order.remove(order_row);
        segment.weights()[at].store(0, Ordering::SeqCst);
        segment.note_change();
        let stamp = Stamp::from_word(segment.states()[at].load(Ordering::Relaxed));
        segment.states()[at].store(Stamp::new(RowState::Free, stamp.generation).word(), Ordering::SeqCst);
        self.free.push_back(row);
        self.changed.note(row);
    }

    /// Returns the properties of a row on which the order of removal depends. The weight in the segment may be 0
    /// because the trajectory is exhausted; in a store with a sample limit, no order depends on weights.
    fn row(&self, segment: &Segment, row: u64) -> Row {
        let at = narrow(row);
        Row {
            row,
            inserted: segment.inserted()[at].load(Ordering::Relaxed),
            weight: f32::from_bits(segment.weights()[at].load(Ordering::Relaxed)),
        }
    }

    /// Returns the number of selectable rows, including those that were sampled for the last time.
    pub(super) fn selectable(&self) -> u64 {
        self.order.len()
    }

    /// Returns the number of free rows.
    pub(super) fn free(&self) -> u64 {
        wide(self.free.len())
    }

    /// Returns the rows whose weight may have changed since the last call.
    pub(super) fn take_changed(&mut self) -> Vec<u64> {
        for &row in &self.changed.rows {
            self.changed.noted[narrow(row)] = false;
        }
        std::mem::take(&mut self.changed.rows)
    }

    /// Returns all selectable rows that are not pinned, as choices for a callback.
    pub(super) fn candidates(&self, segment: &Segment, shard: Shard) -> Vec<Trajectory> {
        let mut found = Vec::new();
        for row in 0..segment.capacity() {
            let at = narrow(row);
            let stamp = Stamp::from_word(segment.states()[at].load(Ordering::Relaxed));
            if stamp.state == RowState::Selectable && pins(segment, row) == 0 {
                let Row { inserted, weight, .. } = self.row(segment, row);
                found.push(Trajectory {
                    index: shard.global(row),
                    generation: stamp.generation,
                    length: u64::from(segment.lengths()[at].load(Ordering::Relaxed)),
                    weight,
                    inserted,
                    sampled: segment.sampled()[at].load(Ordering::Relaxed),
                });
            }
        }
        found
    }
}

/// Returns the trajectories that were sampled the maximum number of times.
fn exhausted_rows(segment: &Segment, limit: u64) -> Vec<Place> {
    let is_exhausted = |&row: &u64| segment.sampled()[narrow(row)].load(Ordering::Relaxed) >= limit;
    let place = |row: u64| {
        let stamp = Stamp::from_word(segment.states()[narrow(row)].load(Ordering::Relaxed));
        Place { row, generation: stamp.generation }
    };
    (0..segment.capacity()).filter(is_exhausted).map(place).collect()
}

/// Returns whether the row still has this trajectory.
fn is_selectable(segment: &Segment, place: Place) -> bool {
    let selectable = Stamp::new(RowState::Selectable, place.generation);
    segment.states()[narrow(place.row)].load(Ordering::Relaxed) == selectable.word()
}

/// Replaces -0 with 0, so that the bits of weights have the order of the numbers.
pub(super) fn without_sign(weight: f32) -> f32 {
    weight + 0.0
}

/// Returns a row's pin counts of all existing readers. The readers are determined together with the counts, so that an
/// eviction sees every reader that may have pinned the row before it.
fn counts(segment: &Segment, row: u64) -> impl Iterator<Item = &AtomicU32> {
    let claims = segment.claims().iter().enumerate();
    let claimed = claims.filter(|(_, claim)| claim.load(Ordering::SeqCst) != NOBODY);
    claimed.map(move |(reader, _)| &segment.pins(reader)[narrow(row)])
}

/// Takes a selectable, unpinned row away from all readers.
fn try_evict(segment: &Segment, row: u64) -> bool {
    pin::evict(&segment.states()[narrow(row)], counts(segment, row))
}

/// Returns the number of pins on a row.
pub(super) fn pins(segment: &Segment, row: u64) -> u64 {
    counts(segment, row).map(|count| u64::from(count.load(Ordering::Relaxed))).sum()
}

/// Releases the pins held by readers that have ended.
pub(super) fn sweep_readers(segment: &Segment, metrics: &Metrics, identity: Identity) -> u64 {
    let mut swept = 0;
    while let Some(reader) = claims::claim_dead(segment.claims(), identity) {
        segment.pins(reader).iter().for_each(|count| count.store(0, Ordering::SeqCst));
        segment.claims()[reader].store(NOBODY, Ordering::SeqCst);
        swept += 1;
    }
    Metrics::add(&metrics.dead_readers, swept);
    swept
}
