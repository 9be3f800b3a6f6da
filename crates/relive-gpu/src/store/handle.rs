//! The store, as seen by its own process.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::{Mutex, ReentrantMutex};

use super::controller::{self, Controller, Place};
use super::inner::{Inner, WriterSlots};
use super::options::StoreOptions;
use super::pinned::Pinned;
use super::reader::Reader;
use super::shard::Shard;
use super::writing::{Inserted, Writing, check_columns, check_weight};
use crate::bytes::{narrow, wide};
use crate::error::Result;
use crate::memory::segment::{Reach, Ready, Segment};
use crate::metrics::{Metrics, MetricsSnapshot};
use crate::schema::Schema;
use relive_gpu_protocol::pin::{RowState, Stamp};

/// A store, in the process that created it and manages its rows: the controller. Cheap to clone.
///
/// Dropping the last clone closes the segment and removes its name. Other processes can still read their mappings.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
}

/// The state of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// The row is free.
    Free,
    /// A trajectory is being written to it.
    Writing,
    /// The row's trajectory can be drawn if the trajectory's weight is above 0.
    Selectable,
    /// The row is selectable, and readers have pinned it.
    Pinned,
    /// The row is being freed.
    Evicting,
}

/// The status of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Status {
    /// The state of the row.
    pub state: State,
    /// Increases with each trajectory that is written to the row.
    pub generation: u64,
    /// The number of steps of its trajectory.
    pub length: u64,
    /// The trajectory's weight; 0 if the row is not selectable.
    pub weight: f32,
    /// The number of trajectories committed before its own.
    pub inserted: u64,
    /// The number of times that it was pinned.
    pub sampled: u64,
    /// The current number of pins.
    pub pins: u64,
}

/// A new weight for a trajectory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reweigh {
    /// The index over all ranks.
    pub index: u64,
    /// The generation that was returned when the trajectory was committed or pinned.
    pub generation: u64,
    /// The weight, which is finite and not negative. With weight 0, the trajectory is kept but never drawn.
    pub weight: f32,
}

/// The result of [`Store::update_weights`] or [`Store::remove`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Changed trajectories.
    pub applied: u64,
    /// The number of trajectories that no longer exist, or, for removals, are pinned.
    pub skipped: u64,
}

/// A row whose weight may have changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// The index within this rank.
    pub local: u64,
    /// The current weight of the row.
    pub weight: f32,
    /// The number of trajectories committed before its own.
    pub inserted: u64,
}

impl Store {
    /// Creates a store in unnamed memory. Other processes attach by its [descriptor](Self::descriptor).
    ///
    /// # Errors
    /// The options are invalid, or memory is insufficient.
    pub fn create(schema: Schema, options: StoreOptions) -> Result<Self> {
        Self::make(schema, options, Reach::Descriptor)
    }

    /// Creates a store for threads of this process only. This is the fastest kind of store on systems without huge
    /// pages in shared memory.
    ///
    /// # Errors
    /// Same as [`create`](Self::create).
    pub fn create_private(schema: Schema, options: StoreOptions) -> Result<Self> {
        Self::make(schema, options, Reach::Process)
    }

    /// Creates a store to which other processes attach by its name. Replaces a segment with this name if its controller
    /// has died.
    ///
    /// # Errors
    /// A living process already uses the name; otherwise, the errors of [`create`](Self::create).
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
            writers: Mutex::new(WriterSlots::new(segment.slots().len())),
            scanning: ReentrantMutex::default(),
            known: Mutex::default(),
            options,
            segment,
            metrics,
            _names: names,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns the schema of the trajectories.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        self.inner.segment.schema()
    }

    /// Returns this store's share of the index space.
    #[must_use]
    pub fn shard(&self) -> Shard {
        self.inner.shard
    }

    /// Returns the capacity in trajectories.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.inner.segment.capacity()
    }

    /// Returns the number of selectable trajectories.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.inner.state.lock().selectable()
    }

    /// Returns whether no trajectory is selectable.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of free rows.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.inner.state.lock().free()
    }

    /// Returns the number of trajectories that can be inserted before another one is evicted.
    #[must_use]
    pub fn room(&self) -> u64 {
        let most = self.inner.options.max_selectable.unwrap_or(u64::MAX);
        let state = self.inner.state.lock();
        state.free().min(most.saturating_sub(state.selectable()))
    }

    /// Returns the size of the segment in bytes, not counting columns in files.
    #[must_use]
    pub fn segment_bytes(&self) -> u64 {
        self.inner.segment.header().layout.segment_bytes
    }

    /// Returns the descriptor of the memory, for processes that attach without a name. Returns `None` for a private
    /// store.
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner.segment.descriptor()
    }

    /// Returns the reader of the store in this process.
    #[must_use]
    pub fn reader(&self) -> &Reader {
        &self.inner.reader
    }

    /// Pins trajectories; see [`Reader::pin`].
    ///
    /// # Errors
    /// Same as [`Reader::pin`].
    pub fn pin(&self, indices: &[u64]) -> Result<Pinned> {
        self.inner.reader.pin(indices)
    }

    /// Returns the counters of this process's use of the store.
    #[must_use]
    pub fn metrics(&self) -> MetricsSnapshot {
        self.inner.metrics.snapshot()
    }

    /// Returns a row to write a trajectory to: a free row, or the row of the next trajectory to evict.
    ///
    /// # Errors
    /// `Unavailable` if every row is pinned or being written.
    pub fn begin(&self) -> Result<Writing> {
        let place = self.inner.allocate()?;
        Ok(Writing::new(Arc::clone(&self.inner), place))
    }

    /// Like [`begin`](Self::begin), but waits up to `patience` for a row.
    ///
    /// # Errors
    /// The errors of [`begin`](Self::begin), after that time.
    pub fn begin_within(&self, patience: Duration) -> Result<Writing> {
        let place = self.inner.allocate_within(patience)?;
        Ok(Writing::new(Arc::clone(&self.inner), place))
    }

    /// Inserts a copy of a trajectory: the bytes of each column, `length` steps of them.
    ///
    /// # Errors
    /// The errors of [`begin`](Self::begin) and [`Writing::commit`], or a column's bytes do not match its steps. An
    /// insert that is refused evicts nothing.
    pub fn insert(&self, columns: &[&[u8]], length: u64, weight: f32) -> Result<Inserted> {
        check_columns(self.schema(), columns, length)?;
        check_weight(weight)?;
        let mut writing = self.begin()?;
        writing.fill(columns)?;
        writing.commit(length, weight)
    }

    /// Sets new weights of trajectories. Trajectories that no longer exist are skipped, because their rows may contain
    /// others by now.
    ///
    /// # Errors
    /// A weight is negative, infinite or NaN, or an index belongs to another rank. In these cases, nothing changes.
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

    /// Removes trajectories. Those that are pinned or no longer exist are skipped. Pins held by processes that ended do
    /// not count.
    ///
    /// # Errors
    /// An index belongs to another rank, in which case nothing is removed; or `/proc` does not contain this process.
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
        inner.notify_room();
        let (skipped, all) = (wide(left.len()), wide(trajectories.len()));
        Ok(Changed { applied: all - skipped, skipped })
    }

    /// Returns the status of a row.
    ///
    /// # Errors
    /// The index belongs to another rank.
    pub fn status(&self, index: u64) -> Result<Status> {
        let segment = &self.inner.segment;
        let row = self.inner.shard.local(index)?;
        let at = narrow(row);
        // The status is read under the lock, so that no partial change is visible.
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

    /// Returns the rows whose weights may have changed since the last call, each once and with its current weight, for
    /// callers that keep sums of weights. A row that a reader in another process has sampled for the last time is
    /// included once it is freed.
    #[must_use]
    pub fn take_changes(&self) -> Vec<Change> {
        let segment = &self.inner.segment;
        let rows = self.inner.state.lock().take_changed();
        // The number is read first: if the row is replaced in between, its trajectory has a later number than this one.
        let change = |local: u64| {
            let inserted = segment.inserted()[narrow(local)].load(Ordering::Acquire);
            let weight = f32::from_bits(segment.weights()[narrow(local)].load(Ordering::Acquire));
            Change { local, weight, inserted }
        };
        rows.into_iter().map(change).collect()
    }

    /// Releases the pins held by processes that ended without dropping them. Returns the number of those processes. A
    /// wait for a row also does this.
    ///
    /// # Errors
    /// `/proc` does not contain this process.
    pub fn sweep(&self) -> Result<u64> {
        let swept = self.inner.sweep()?;
        self.inner.notify_room();
        Ok(swept)
    }
}

impl Changed {
    fn count(&mut self, applied: bool) {
        *if applied { &mut self.applied } else { &mut self.skipped } += 1;
    }
}
