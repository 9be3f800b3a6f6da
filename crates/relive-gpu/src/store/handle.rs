//! The store as its own process uses it.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;

use super::controller::{self, Controller, Place};
use super::inner::Inner;
use super::options::StoreOptions;
use super::pinned::Pinned;
use super::reader::Reader;
use super::shard::Shard;
use super::writer_slots::WriterSlots;
use super::writing::{Inserted, Writing, check_columns, check_weight};
use crate::bytes::{narrow, wide};
use crate::error::Result;
use crate::memory::segment::{Reach, Ready, Segment};
use crate::metrics::{Metrics, MetricsSnapshot};
use crate::protocol::pin::{RowState, Stamp};
use crate::schema::Schema;

/// A store, in the process that made it and decides about its rows: the controller. Cheap to clone.
///
/// When the last clone is dropped, the segment is closed and its name removed; other processes may read on in what
/// they have mapped.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
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
            writers: Mutex::new(WriterSlots::new(segment.slots().len())),
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
    /// As [`begin`](Self::begin) and [`Writing::commit`], or a column has not as many bytes as its steps have. What
    /// is refused evicts nobody.
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

    /// Removes trajectories. Those that are pinned, or are there no more, are skipped. Pins of processes that ended
    /// do not count.
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
