//! The part of a store in its controller's process, and how it makes room.

use std::cell::Cell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, ReentrantMutex};

use super::controller::{self, Controller, Place};
use super::options::{Removal, StoreOptions, Trajectory};
use super::reader::Reader;
use super::shard::Shard;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::files::Name;
use crate::memory::futex;
use crate::memory::identity::Identity;
use crate::memory::segment::Segment;
use crate::metrics::{Eviction, Metrics};

/// How long a wait for a row lasts before it checks for dead readers, which wake no waiter. The check reads a file for
/// each reader.
pub(crate) const SWEEP_EVERY: Duration = Duration::from_millis(100);
/// The maximum number of times that a callback is called again because its choice could no longer be evicted when it
/// returned.
const CHOICES: usize = 8;

#[cfg(test)]
thread_local! {
    /// The number of checks for dead readers by this thread.
    pub(crate) static SWEEPS: Cell<u64> = const { Cell::new(0) };
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) segment: Arc<Segment>,
    pub(crate) shard: Shard,
    pub(crate) options: StoreOptions,
    pub(crate) state: Mutex<Controller>,
    pub(crate) reader: Reader,
    pub(crate) metrics: Arc<Metrics>,
    /// Held only briefly: a removal function is never called while it is held.
    pub(crate) writers: Mutex<WriterSlots>,
    /// Held during a scan. Its value is whether this thread is already scanning, since a removal function may try to
    /// start another scan.
    pub(crate) scanning: ReentrantMutex<Cell<bool>>,
    /// The checkpoint that this store last wrote to a folder or was loaded from, identified by its random number.
    pub(crate) known: Mutex<HashMap<PathBuf, u64>>,
    pub(super) _names: Vec<Name>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.segment.close();
    }
}

impl Inner {
    /// Takes a free row; if there is none, evicts a trajectory to free its row.
    pub(crate) fn allocate(&self) -> Result<Place> {
        if let Some(place) = self.try_allocate() {
            return Ok(place);
        }
        if self.sweep()? > 0
            && let Some(place) = self.try_allocate()
        {
            return Ok(place);
        }
        Err(self.full())
    }

    /// Like [`allocate`](Self::allocate), but returns `None` if there is no row, without a check for dead readers.
    pub(crate) fn try_allocate(&self) -> Option<Place> {
        let Removal::Callback(choose) = &self.options.removal else {
            return self.state.lock().allocate(&self.segment, &self.metrics);
        };
        for _ in 0..CHOICES {
            let candidates = {
                let mut state = self.state.lock();
                if state.free() > 0 {
                    return state.allocate(&self.segment, &self.metrics);
                }
                state.candidates(&self.segment, self.shard)
            };
            if !self.evict_choice(&candidates, choose(&candidates), Eviction::NoFree) {
                return None;
            }
        }
        None
    }

    /// Evicts these trajectories. Returns the trajectories that are pinned or no longer exist.
    pub(super) fn evict_these(&self, mut places: Vec<Place>) -> Vec<Place> {
        let mut state = self.state.lock();
        places.retain(|&place| !state.evict_this(&self.segment, &self.metrics, place, Eviction::Removed));
        places
    }

    /// Evicts a callback's choice. Returns `false` if the callback chose none. If the choice was evicted or pinned in
    /// the meantime, nothing is evicted.
    fn evict_choice(&self, candidates: &[Trajectory], chosen: Option<usize>, reason: Eviction) -> bool {
        let Some(candidate) = chosen.and_then(|chosen| candidates.get(chosen)) else { return false };
        let row = self.shard.local(candidate.index).expect("made by this store");
        let place = Place { row, generation: candidate.generation };
        self.state.lock().evict_this(&self.segment, &self.metrics, place, reason);
        true
    }

    fn full(&self) -> Error {
        let state = self.state.lock();
        Error::unavailable(format!(
            "no row of {} is free, and none can be evicted: of its {} rows, {} are selectable, but batches (also those drawn \
             ahead, `prefetch`) pin them, or the removal function keeps them; drop batches, finish trajectories, or create \
             a larger store",
            self.segment.what(),
            self.segment.capacity(),
            state.selectable()
        ))
    }

    /// Takes a row; waits for one if necessary.
    pub(crate) fn allocate_within(&self, patience: Duration) -> Result<Place> {
        let begin = Instant::now();
        let deadline = futex::deadline(patience);
        let (releases, waiting) = self.segment.releases();
        let mut waited = false;
        loop {
            waiting.fetch_add(1, Ordering::SeqCst);
            let seen = releases.load(Ordering::SeqCst);
            let outcome = self.allocate();
            let unavailable = outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unavailable);
            let now = Instant::now();
            if unavailable && now < deadline {
                waited = true;
                futex::wait(releases, seen, deadline.min(now + SWEEP_EVERY));
            }
            waiting.fetch_sub(1, Ordering::SeqCst);
            if !unavailable || now >= deadline {
                if waited {
                    self.metrics.waited(begin.elapsed());
                }
                return outcome;
            }
        }
    }

    /// Makes a written row selectable. The caller [makes room](Self::make_room) before.
    pub(crate) fn commit(&self, place: Place, length: u32, weight: f32) {
        let bytes: u64 = self.segment.header().layout.tables.iter().map(|table| table.step_bytes).sum();
        self.state.lock().commit(&self.segment, place, length, weight);
        Metrics::add(&self.metrics.inserted_rows, 1);
        Metrics::add(&self.metrics.inserted_bytes, u64::from(length) * bytes);
        self.notify_room();
    }

    /// Evicts until one more row may be selectable. Returns `false` if the limit is exceeded because the callback
    /// keeps everything, or all candidates are pinned.
    pub(crate) fn make_room(&self) -> bool {
        let Some(most) = self.options.max_selectable else { return true };
        let over = |state: &Controller| state.selectable() >= most;
        match &self.options.removal {
            Removal::Callback(choose) => {
                for _ in 0..CHOICES {
                    let candidates = {
                        let state = self.state.lock();
                        if !over(&state) {
                            return true;
                        }
                        state.candidates(&self.segment, self.shard)
                    };
                    if !self.evict_choice(&candidates, choose(&candidates), Eviction::MaxSelectable) {
                        return false;
                    }
                }
                !over(&self.state.lock())
            }
            _ => {
                let mut state = self.state.lock();
                while over(&state) && state.evict(&self.segment, &self.metrics, Eviction::MaxSelectable) {}
                !over(&state)
            }
        }
    }

    /// Returns the row of an abandoned trajectory.
    pub(crate) fn abort(&self, place: Place) {
        self.state.lock().abort(&self.segment, place);
        Metrics::add(&self.metrics.aborted_rows, 1);
        self.notify_room();
    }

    pub(crate) fn sweep(&self) -> Result<u64> {
        #[cfg(test)]
        SWEEPS.set(SWEEPS.get() + 1);
        let identity = Identity::current()?;
        let mut state = self.state.lock();
        let swept = controller::sweep_readers(&self.segment, &self.metrics, identity);
        if swept > 0 {
            state.forget_exhausted();
        }
        Ok(swept)
    }

    /// Wakes the waiters for a row, because one may be free.
    pub(super) fn notify_room(&self) {
        let (releases, waiting) = self.segment.releases();
        if waiting.load(Ordering::SeqCst) > 0 {
            releases.fetch_add(1, Ordering::SeqCst);
            futex::wake(releases);
        }
    }
}

/// The controller's own record of the writers, independent of the slots' contents.
#[derive(Debug)]
pub(crate) struct WriterSlots {
    pub(crate) slots: Vec<WriterSlot>,
    pub(crate) starved: bool,
    /// Finished trajectories that no scan has returned yet.
    pub(crate) finished: Vec<Place>,
    /// The number of abandoned trajectories that no scan has returned yet.
    pub(crate) aborted: u64,
    /// When a scan last checked for dead readers; `None` before that.
    pub(crate) swept: Option<Instant>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WriterSlot {
    pub(crate) place: Option<Place>,
    /// Whether the writer's request has been reported and its turn has not been given back yet.
    pub(crate) reported: bool,
    pub(crate) looked_ms: u64,
}

impl WriterSlots {
    pub(crate) fn new(slots: usize) -> Self {
        let slots = vec![WriterSlot::default(); slots];
        Self { slots, starved: false, finished: Vec::new(), aborted: 0, swept: None }
    }
}
