//! What the controller's process has of a store.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::controller::{self, Controller, Place};
use super::options::{Removal, StoreOptions};
use super::pinned::Pinned;
use super::reader::Reader;
use super::shard::Shard;
use super::writing::{Inserted, Writing, check_columns, check_weight};
use crate::bytes::{narrow, wide};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::files::Name;
use crate::memory::futex;
use crate::memory::identity::Identity;
use crate::memory::segment::{Reach, Ready, Segment};
use crate::metrics::{Eviction, Metrics, MetricsSnapshot};
use crate::protocol::pin::{RowState, Stamp};
use crate::schema::Schema;
use crate::writers::Writers;

/// How long a wait for a row goes on before it is looked whether a reader has died, which wakes nobody.
const SWEEP_EVERY: Duration = Duration::from_millis(100);
/// A callback's choice may be gone by the time it has chosen; then it is asked again, this often.
const CHOICES: usize = 8;

/// A store, in the process that made it and decides about its rows: the controller. Cheap to clone.
///
/// When the last clone is dropped, the segment is closed and its name removed; other processes may read on in what
/// they have mapped.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) segment: Arc<Segment>,
    pub(crate) shard: Shard,
    pub(crate) options: StoreOptions,
    pub(crate) state: Mutex<Controller>,
    pub(crate) reader: Reader,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) writers: Mutex<Writers>,
    /// The checkpoint that this store has written into a folder last, or was loaded from, by its random number.
    pub(crate) known: Mutex<HashMap<PathBuf, u64>>,
    _names: Vec<Name>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.segment.close();
    }
}

/// What a row is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Nobody has it.
    Free,
    /// A trajectory is being written into it.
    Writing,
    /// Its trajectory can be drawn if its weight is above 0.
    Selectable,
    /// As selectable, and readers have it.
    Pinned,
    /// It is being made free.
    Evicting,
}

/// What there is to know of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Status {
    /// What it is at.
    pub state: State,
    /// Grows with each trajectory in it.
    pub generation: u64,
    /// Number of steps of its trajectory.
    pub length: u64,
    /// 0 if it is not selectable.
    pub weight: f32,
    /// Number of trajectories that were committed before its own.
    pub inserted: u64,
    /// How often it was pinned.
    pub sampled: u64,
    /// Number of pins at the moment.
    pub pins: u64,
}

/// A new weight for a trajectory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reweigh {
    /// Of all ranks together.
    pub index: u64,
    /// As it was told when it was committed or pinned.
    pub generation: u64,
    /// Finite and not negative; at 0 it is kept, but never drawn.
    pub weight: f32,
}

/// What came of [`Store::update_weights`] or [`Store::remove`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Trajectories that were changed.
    pub applied: u64,
    /// Trajectories that are there no more, or, where they were to be removed, are pinned.
    pub skipped: u64,
}

/// A row whose weight may have changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// In this rank.
    pub local: u64,
    /// Its weight now.
    pub weight: f32,
    /// Number of trajectories that were committed before its own.
    pub inserted: u64,
}

impl Store {
    /// Makes a store in memory without a name. Other processes attach by its [descriptor](Self::descriptor).
    ///
    /// # Errors
    /// Options that make no sense, or not as much memory.
    pub fn create(schema: Schema, options: StoreOptions) -> Result<Self> {
        Self::make(schema, options, Reach::Descriptor)
    }

    /// Makes a store for threads of this process alone. On systems whose shared memory has no huge pages, this is the
    /// fastest.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn create_private(schema: Schema, options: StoreOptions) -> Result<Self> {
        Self::make(schema, options, Reach::Process)
    }

    /// Makes a store to which other processes attach by its name. A segment of this name whose controller has died is
    /// replaced.
    ///
    /// # Errors
    /// A living process has the name; otherwise as [`create`](Self::create).
    pub fn create_named(name: &str, schema: Schema, options: StoreOptions) -> Result<Self> {
        Self::make(schema, options, Reach::Named(name))
    }

    fn make(schema: Schema, options: StoreOptions, reach: Reach<'_>) -> Result<Self> {
        let header = options.header(schema)?;
        let ready = Ready { huge_pages: options.huge_pages, touch_threads: options.touch_threads };
        let (segment, names) = Segment::create(header, reach, ready)?;
        let segment = Arc::new(segment);
        let metrics = Arc::new(Metrics::default());
        let inner = Inner {
            shard: Shard::new(options.rank, options.ranks, options.capacity)?,
            state: Mutex::new(Controller::new(&options.removal, options.capacity, options.seed)),
            reader: Reader::new(Arc::clone(&segment), Arc::clone(&metrics))?,
            writers: Mutex::new(Writers::new(segment.slots().len())),
            known: Mutex::default(),
            options,
            segment,
            metrics,
            _names: names,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// What trajectories are made of.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        self.inner.segment.schema()
    }

    /// Which indices are this store's.
    #[must_use]
    pub fn shard(&self) -> Shard {
        self.inner.shard
    }

    /// Number of trajectories for which there is room.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.inner.segment.capacity()
    }

    /// Number of selectable trajectories.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.inner.state.lock().selectable()
    }

    /// Whether there is no selectable trajectory.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of rows that nobody has.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.inner.state.lock().free()
    }

    /// Bytes of the segment, without columns in files.
    #[must_use]
    pub fn segment_bytes(&self) -> u64 {
        self.inner.segment.header().layout.segment_bytes
    }

    /// The descriptor of the memory, for processes that attach without a name. `None` for a private store.
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner.segment.descriptor()
    }

    /// The way to read the store in this process.
    #[must_use]
    pub fn reader(&self) -> &Reader {
        &self.inner.reader
    }

    /// Pins trajectories; see [`Reader::pin`].
    ///
    /// # Errors
    /// As there.
    pub fn pin(&self, indices: &[u64]) -> Result<Pinned> {
        self.inner.reader.pin(indices)
    }

    /// What this process has done with the store.
    #[must_use]
    pub fn metrics(&self) -> MetricsSnapshot {
        self.inner.metrics.snapshot()
    }

    /// A row to write a trajectory into; if none is free, the next victim's.
    ///
    /// # Errors
    /// `Unavailable` if every row is pinned or being written.
    pub fn begin(&self) -> Result<Writing> {
        let place = self.inner.allocate()?;
        Ok(Writing::new(Arc::clone(&self.inner), place))
    }

    /// As [`begin`](Self::begin), but waits up to `patience` for a row.
    ///
    /// # Errors
    /// As there, after that time.
    pub fn begin_within(&self, patience: Duration) -> Result<Writing> {
        let place = self.inner.allocate_within(patience)?;
        Ok(Writing::new(Arc::clone(&self.inner), place))
    }

    /// Copies a trajectory in: the bytes of each column, `length` steps of them.
    ///
    /// # Errors
    /// As [`begin`](Self::begin) and [`Writing::commit`], or a column has not as many bytes as its steps have. What is refused
    /// evicts nobody.
    pub fn insert(&self, columns: &[&[u8]], length: u64, weight: f32) -> Result<Inserted> {
        check_columns(self.schema(), columns, length)?;
        check_weight(weight)?;
        let mut writing = self.begin()?;
        writing.fill(columns)?;
        writing.commit(length, weight)
    }

    /// Gives trajectories new weights. Those that are there no more are skipped: their rows may have others by now.
    ///
    /// # Errors
    /// A weight is negative, infinite or not a number, or an index is another rank's; then nothing is changed.
    pub fn update_weights(&self, updates: &[Reweigh]) -> Result<Changed> {
        let inner = &*self.inner;
        let mut places = Vec::with_capacity(updates.len());
        for update in updates {
            check_weight(update.weight)?;
            places.push(Place { row: inner.shard.local(update.index)?, generation: update.generation });
        }
        let mut changed = Changed::default();
        let mut state = inner.state.lock();
        for (place, update) in places.into_iter().zip(updates) {
            changed.count(state.reweigh(&inner.segment, place, update.weight));
        }
        drop(state);
        Metrics::add(&inner.metrics.stale_updates, changed.skipped);
        Ok(changed)
    }

    /// Removes trajectories. Those that are pinned, or are there no more, are skipped. Pins of processes that ended do not count.
    ///
    /// # Errors
    /// An index is another rank's; then nothing is removed. Or this process cannot be found in `/proc`.
    pub fn remove(&self, trajectories: &[Inserted]) -> Result<Changed> {
        let inner = &*self.inner;
        let mut places = Vec::with_capacity(trajectories.len());
        for &Inserted { index, generation } in trajectories {
            places.push(Place { row: inner.shard.local(index)?, generation });
        }
        let mut left = inner.evict_these(places);
        if !left.is_empty() && inner.sweep()? > 0 {
            left = inner.evict_these(left);
        }
        inner.tell_room();
        let (skipped, all) = (wide(left.len()), wide(trajectories.len()));
        Ok(Changed { applied: all - skipped, skipped })
    }

    /// What a row is at.
    ///
    /// # Errors
    /// The index is another rank's.
    pub fn status(&self, index: u64) -> Result<Status> {
        let segment = &self.inner.segment;
        let row = self.inner.shard.local(index)?;
        let at = narrow(row);
        // Under the lock, so that no change is seen half.
        let _state = self.inner.state.lock();
        let stamp = Stamp::from_word(segment.states()[at].load(Ordering::Relaxed));
        let pins = controller::pins(segment, row);
        Ok(Status {
            state: match stamp.state {
                RowState::Free => State::Free,
                RowState::Writing => State::Writing,
                RowState::Selectable if pins > 0 => State::Pinned,
                RowState::Selectable => State::Selectable,
                RowState::Evicting => State::Evicting,
            },
            generation: stamp.generation,
            length: u64::from(segment.lengths()[at].load(Ordering::Relaxed)),
            weight: f32::from_bits(segment.weights()[at].load(Ordering::Relaxed)),
            inserted: segment.inserted()[at].load(Ordering::Relaxed),
            sampled: segment.sampled()[at].load(Ordering::Relaxed),
            pins,
        })
    }

    /// The rows whose weights may have changed since the last call, for who keeps sums of weights: each once, with
    /// its weight now. A row that a reader of another process has sampled for the last time is among them once it is
    /// freed.
    #[must_use]
    pub fn take_changes(&self) -> Vec<Change> {
        let segment = &self.inner.segment;
        let rows = self.inner.state.lock().take_changed();
        let change = |local: u64| Change {
            local,
            weight: f32::from_bits(segment.weights()[narrow(local)].load(Ordering::Relaxed)),
            inserted: segment.inserted()[narrow(local)].load(Ordering::Relaxed),
        };
        rows.into_iter().map(change).collect()
    }

    /// Takes back the pins of processes that ended without dropping them, and says how many processes those were. A
    /// wait for a row does this by itself.
    ///
    /// # Errors
    /// This process cannot be found in `/proc`.
    pub fn sweep(&self) -> Result<u64> {
        let swept = self.inner.sweep()?;
        self.inner.tell_room();
        Ok(swept)
    }
}

impl Changed {
    fn count(&mut self, applied: bool) {
        *if applied { &mut self.applied } else { &mut self.skipped } += 1;
    }
}

impl Inner {
    /// Takes a row, a victim's if need be.
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

    fn try_allocate(&self) -> Option<Place> {
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

    /// Evicts these trajectories, and gives back those that are pinned or are there no more.
    fn evict_these(&self, mut places: Vec<Place>) -> Vec<Place> {
        let mut state = self.state.lock();
        places.retain(|&place| !state.evict_this(&self.segment, &self.metrics, place, Eviction::Removed));
        places
    }

    /// Evicts what a callback has chosen; `false` if it has chosen nobody. What has gone or was pinned meanwhile
    /// stays as it is.
    fn evict_choice(
        &self,
        candidates: &[super::options::Candidate],
        chosen: Option<usize>,
        reason: Eviction,
    ) -> bool {
        let Some(candidate) = chosen.and_then(|chosen| candidates.get(chosen)) else { return false };
        let row = self.shard.local(candidate.index).expect("made by this store");
        let place = Place { row, generation: candidate.generation };
        self.state.lock().evict_this(&self.segment, &self.metrics, place, reason);
        true
    }

    fn full(&self) -> Error {
        let state = self.state.lock();
        Error::unavailable(format!(
            "no row of {} is free and none can be evicted: of {} rows, {} are selectable, and those are pinned or kept by the \
             callback; drop batches, finish trajectories, or make the store larger",
            self.segment.what(),
            self.segment.capacity(),
            state.selectable()
        ))
    }

    /// Takes a row, waiting for one.
    pub(crate) fn allocate_within(&self, patience: Duration) -> Result<Place> {
        let begin = Instant::now();
        let deadline =
            begin.checked_add(patience).unwrap_or(begin + Duration::from_secs(u64::from(u32::MAX)));
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

    /// Makes a written row selectable, and keeps their number within its limit.
    pub(crate) fn commit(&self, place: Place, length: u32, weight: f32) {
        self.make_room();
        let bytes: u64 = self.segment.header().layout.tables.iter().map(|table| table.step_bytes).sum();
        self.state.lock().commit(&self.segment, place, length, weight);
        Metrics::add(&self.metrics.inserted_rows, 1);
        Metrics::add(&self.metrics.inserted_bytes, u64::from(length) * bytes);
        self.tell_room();
    }

    /// Evicts until one more may be selectable, or nobody can be evicted.
    fn make_room(&self) {
        let Some(most) = self.options.max_selectable else { return };
        let over = |state: &Controller| state.selectable() >= most;
        match &self.options.removal {
            Removal::Callback(choose) => {
                for _ in 0..CHOICES {
                    let candidates = {
                        let state = self.state.lock();
                        if !over(&state) {
                            return;
                        }
                        state.candidates(&self.segment, self.shard)
                    };
                    if !self.evict_choice(&candidates, choose(&candidates), Eviction::MaxSelectable) {
                        return;
                    }
                }
            }
            _ => {
                let mut state = self.state.lock();
                while over(&state) && state.evict(&self.segment, &self.metrics, Eviction::MaxSelectable) {}
            }
        }
    }

    /// Gives back a row whose trajectory is given up.
    pub(crate) fn abort(&self, place: Place) {
        self.state.lock().abort(&self.segment, place);
        Metrics::add(&self.metrics.aborted_rows, 1);
        self.tell_room();
    }

    fn sweep(&self) -> Result<u64> {
        let identity = Identity::current()?;
        let _state = self.state.lock();
        Ok(controller::sweep_readers(&self.segment, &self.metrics, identity))
    }

    /// Wakes who waits for a row: there may be one.
    fn tell_room(&self) {
        let (releases, waiting) = self.segment.releases();
        if waiting.load(Ordering::SeqCst) > 0 {
            releases.fetch_add(1, Ordering::SeqCst);
            futex::wake(releases);
        }
    }
}
