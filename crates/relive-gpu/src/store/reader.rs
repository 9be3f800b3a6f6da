//! Reading trajectories, in this process or another, while they cannot be replaced.
#![expect(unsafe_code, reason = "pinned rows become slices here; each block says why it is sound")]

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::shard::Shard;
use crate::bytes::{narrow, wide};
use crate::error::{Error, Result};
use crate::memory::claims::{self, NOBODY};
use crate::memory::futex;
use crate::memory::identity::Identity;
use crate::memory::segment::Segment;
use crate::metrics::{Metrics, MetricsSnapshot};
use crate::protocol::pin::{self, Pin};
use crate::schema::Schema;

/// How often a pin looks again while the controller decides about the row, which takes it less than a microsecond.
const LOOKS: usize = 10_000;

/// A process's way to read a store that it, or another process, has made. Cheap to clone.
///
/// A process that forks attaches anew in the child: pins are those of a process, and go with it.
#[derive(Clone, Debug)]
pub struct Reader {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    segment: Arc<Segment>,
    slot: usize,
    shard: Shard,
    metrics: Arc<Metrics>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Whoever has pins has this, too: all counts are 0.
        self.segment.claims()[self.slot].store(NOBODY, Ordering::SeqCst);
    }
}

/// A trajectory that was pinned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PinnedRow {
    /// Of all ranks together.
    pub index: u64,
    /// Of this trajectory: the row's next one has a higher generation.
    pub generation: u64,
    /// Number of steps.
    pub length: u64,
    /// Its weight now.
    pub weight: f32,
    /// Number of trajectories that were committed before it.
    pub inserted: u64,
    /// How often it was pinned, this time included.
    pub sampled: u64,
}

impl Reader {
    /// Attaches to the store of this name.
    ///
    /// # Errors
    /// There is none; it has another schema than the one expected, which the error shows; its controller has ended;
    /// or all its reader slots are taken.
    pub fn attach(name: &str, expected: Option<&Schema>) -> Result<Self> {
        Self::with(Segment::open(name)?, expected)
    }

    /// Attaches to the store whose descriptor ([`Store::descriptor`](crate::Store::descriptor)) another process has
    /// passed on.
    ///
    /// # Errors
    /// As for [`attach`](Self::attach).
    pub fn attach_descriptor(descriptor: OwnedFd, expected: Option<&Schema>) -> Result<Self> {
        Self::with(Segment::from_descriptor(descriptor)?, expected)
    }

    fn with(segment: Segment, expected: Option<&Schema>) -> Result<Self> {
        if let Some(schema) = expected {
            segment.expect_schema(schema)?;
        }
        Self::new(Arc::new(segment), Arc::default())
    }

    /// A reader of a segment that this process has mapped.
    pub(crate) fn new(segment: Arc<Segment>, metrics: Arc<Metrics>) -> Result<Self> {
        let shape = segment.header().shape;
        let shard = Shard::new(shape.rank, shape.ranks, shape.capacity)?;
        let identity = Identity::current()?;
        let free = claims::claim_free(segment.claims(), identity);
        let Some(slot) = free.or_else(|| claims::claim_dead(segment.claims(), identity)) else {
            return Err(Error::unavailable(format!(
                "all {} reader slots of {} are taken; make the store with more `readers`",
                shape.readers,
                segment.what()
            )));
        };
        // Those of a reader that ended without leaving.
        segment.pins(slot).iter().filter(|count| count.load(Ordering::Relaxed) > 0).for_each(|count| {
            count.store(0, Ordering::SeqCst);
        });
        Ok(Self { shared: Arc::new(Shared { segment, slot, shard, metrics }) })
    }

    /// What trajectories are made of.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        self.shared.segment.schema()
    }

    /// Which indices are this store's.
    #[must_use]
    pub fn shard(&self) -> Shard {
        self.shared.shard
    }

    /// Number of trajectories for which there is room.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.shared.segment.capacity()
    }

    /// What this process has done with the store.
    #[must_use]
    pub fn metrics(&self) -> MetricsSnapshot {
        self.shared.metrics.snapshot()
    }

    pub(crate) fn counters(&self) -> &Arc<Metrics> {
        &self.shared.metrics
    }

    pub(crate) fn segment(&self) -> &Arc<Segment> {
        &self.shared.segment
    }

    /// Copies the weights of all rows of this rank, 0 for those that are not selectable.
    ///
    /// # Errors
    /// `out` has not as many places as there are rows.
    pub fn read_weights(&self, out: &mut [f32]) -> Result<()> {
        self.check_places(out.len())?;
        let weights = self.shared.segment.weights();
        out.iter_mut().zip(weights).for_each(|(out, weight)| {
            *out = f32::from_bits(weight.load(Ordering::Relaxed));
        });
        Ok(())
    }

    /// Copies the insertion numbers of all rows of this rank: those with a lower number were committed before. They
    /// mean something for rows with a weight only.
    ///
    /// # Errors
    /// `out` has not as many places as there are rows.
    pub fn read_inserted(&self, out: &mut [u64]) -> Result<()> {
        self.check_places(out.len())?;
        let inserted = self.shared.segment.inserted();
        out.iter_mut().zip(inserted).for_each(|(out, number)| *out = number.load(Ordering::Relaxed));
        Ok(())
    }

    fn check_places(&self, places: usize) -> Result<()> {
        let capacity = self.shared.segment.capacity();
        if wide(places) != capacity {
            return Err(Error::invalid(format!("{places} places for {capacity} rows; pass as many")));
        }
        Ok(())
    }

    /// Pins trajectories: until the result is dropped, nobody replaces them. Counts as sampling them. An index that
    /// comes twice is pinned twice.
    ///
    /// # Errors
    /// `NotFound` if one of them is not selectable, or is another rank's; then none is pinned.
    pub fn pin(&self, indices: &[u64]) -> Result<Pinned> {
        let (pinned, missing) = self.pin_present(indices)?;
        if let Some(&first) = missing.first() {
            return Err(Error::not_found(format!(
                "{} of {} trajectories cannot be pinned; the first is index {}, which is not selectable: draw again",
                missing.len(),
                indices.len(),
                indices[first]
            )));
        }
        Ok(pinned)
    }

    /// Pins those of the trajectories that are there, and gives the positions of the others: since they were drawn,
    /// others may have taken their places.
    ///
    /// # Errors
    /// An index is another rank's, or the controller ended while it decided about a row.
    pub fn pin_present(&self, indices: &[u64]) -> Result<(Pinned, Vec<usize>)> {
        let mut pinned = Pinned { shared: Arc::clone(&self.shared), rows: Vec::with_capacity(indices.len()) };
        let mut missing = Vec::new();
        let committed = self.shared.segment.committed().load(Ordering::Relaxed);
        for (position, &index) in indices.iter().enumerate() {
            match self.pin_one(index, true)? {
                Some(row) => {
                    self.shared.metrics.aged(committed.saturating_sub(row.inserted + 1));
                    pinned.rows.push(row);
                }
                None => missing.push(position),
            }
        }
        Ok((pinned, missing))
    }

    /// Pins rows without counting it: nobody samples them.
    pub(crate) fn hold(&self, indices: &[u64]) -> Result<Pinned> {
        let mut pinned = Pinned { shared: Arc::clone(&self.shared), rows: Vec::with_capacity(indices.len()) };
        for &index in indices {
            pinned.rows.extend(self.pin_one(index, false)?);
        }
        Ok(pinned)
    }

    fn pin_one(&self, index: u64, sample: bool) -> Result<Option<PinnedRow>> {
        let Shared { segment, slot, shard, .. } = &*self.shared;
        let at = narrow(shard.local(index)?);
        let count = &segment.pins(*slot)[at];
        let Some(generation) = self.pin_count(at, count)? else { return Ok(None) };
        crate::kill::kill_point!("pinned");
        let sampled =
            if sample { self.sample(at) } else { Some(segment.sampled()[at].load(Ordering::Relaxed)) };
        let Some(sampled) = sampled else {
            self.shared.release(count);
            return Ok(None);
        };
        Ok(Some(PinnedRow {
            index,
            generation,
            length: u64::from(segment.lengths()[at].load(Ordering::Relaxed)),
            weight: f32::from_bits(segment.weights()[at].load(Ordering::Relaxed)),
            inserted: segment.inserted()[at].load(Ordering::Relaxed),
            sampled,
        }))
    }

    fn pin_count(&self, at: usize, count: &AtomicU32) -> Result<Option<u64>> {
        let state = &self.shared.segment.states()[at];
        for _ in 0..LOOKS {
            match pin::pin(state, count) {
                Pin::Held(generation) => return Ok(Some(generation)),
                Pin::Refused => return Ok(None),
                Pin::Undecided => std::thread::yield_now(),
            }
        }
        self.shared.segment.check_owner()?;
        Err(Error::unavailable("the controller takes unusually long to decide about a row; try again"))
    }

    /// Counts that a pinned row is sampled; `None` if it was sampled as often as it may be.
    fn sample(&self, at: usize) -> Option<u64> {
        let segment = &self.shared.segment;
        let sampled = &segment.sampled()[at];
        let before = sampled.fetch_add(1, Ordering::SeqCst);
        let limit = segment.header().shape.max_times_sampled;
        if limit > 0 && before >= limit {
            sampled.fetch_sub(1, Ordering::SeqCst);
            return None;
        }
        if before + 1 == limit {
            segment.weights()[at].store(0, Ordering::SeqCst);
            segment.exhausted().fetch_add(1, Ordering::Release);
        }
        Some(before + 1)
    }
}

impl Shared {
    /// Takes a pin back, and wakes who waits for a row.
    fn release(&self, count: &AtomicU32) {
        pin::unpin(count);
    }

    fn tell_released(&self) {
        let (releases, waiting) = self.segment.releases();
        if waiting.load(Ordering::SeqCst) > 0 {
            releases.fetch_add(1, Ordering::SeqCst);
            futex::wake(releases);
        }
    }
}

/// Trajectories that nobody replaces until this is dropped.
#[derive(Debug)]
pub struct Pinned {
    shared: Arc<Shared>,
    rows: Vec<PinnedRow>,
}

impl Pinned {
    /// The trajectories, in the order in which they were asked for.
    #[must_use]
    pub fn rows(&self) -> &[PinnedRow] {
        &self.rows
    }

    /// What they are made of.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        self.shared.segment.schema()
    }

    /// All steps of a trajectory in a column, as they lie in the store.
    ///
    /// # Errors
    /// There is no such row or column.
    pub fn bytes(&self, row: usize, column: usize) -> Result<&[u8]> {
        let segment = &self.shared.segment;
        let columns = segment.schema().columns().len();
        let Some(pinned) = self.rows.get(row).filter(|_| column < columns) else {
            return Err(Error::not_found(format!(
                "there is no row {row} with a column {column}; there are {} rows and {columns} columns",
                self.rows.len()
            )));
        };
        let (start, _) = segment.row(column, self.shared.shard.local(pinned.index)?);
        let bytes = pinned.length * segment.schema().step_bytes(column);
        // SAFETY: the bytes lie in the mapping, which this keeps, and were written before the row became selectable.
        // As long as the row is pinned, by protocol nobody writes to it.
        Ok(unsafe { std::slice::from_raw_parts(start, narrow(bytes)) })
    }

    /// Takes in what another call has pinned, behind its own trajectories.
    ///
    /// # Errors
    /// Another reader has pinned them; then they are let go of.
    pub fn append(&mut self, mut other: Pinned) -> Result<()> {
        if !Arc::ptr_eq(&self.shared, &other.shared) {
            return Err(Error::invalid("the trajectories were pinned by another reader"));
        }
        self.rows.append(&mut other.rows);
        Ok(())
    }

    pub(crate) fn segment(&self) -> &Arc<Segment> {
        &self.shared.segment
    }

    pub(crate) fn shard(&self) -> Shard {
        self.shared.shard
    }

    pub(crate) fn counters(&self) -> &Metrics {
        &self.shared.metrics
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let counts = self.shared.segment.pins(self.shared.slot);
        for row in &self.rows {
            let local = self.shared.shard.local(row.index).expect("was pinned by it");
            self.shared.release(&counts[narrow(local)]);
        }
        if !self.rows.is_empty() {
            self.shared.tell_released();
        }
    }
}
