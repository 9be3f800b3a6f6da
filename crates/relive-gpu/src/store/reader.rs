//! Reading trajectories, in this process or another, while they cannot be replaced.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::pinned::{Pinned, PinnedRow};
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
///
/// Readers of all ranks' stores on one machine make one of the whole index space: see [`of_ranks`](Self::of_ranks).
#[derive(Clone, Debug)]
pub struct Reader {
    shared: Arc<Shared>,
    /// Those of all ranks in their order, this one's included; empty unless they were joined.
    ranks: Arc<[Arc<Shared>]>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) segment: Arc<Segment>,
    slot: usize,
    pub(super) shard: Shard,
    pub(super) metrics: Arc<Metrics>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Whoever has pins has this, too: all counts are 0.
        self.segment.claims()[self.slot].store(NOBODY, Ordering::SeqCst);
    }
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
        let shared = Arc::new(Shared { segment, slot, shard, metrics });
        Ok(Self { shared, ranks: Arc::new([]) })
    }

    /// The reader of all ranks' stores, which lie in the memory of this machine: it pins any index, and collectors copy from
    /// whichever store has it. `readers` are those of all ranks, in any order. What it says of a store, such as its weights
    /// and counters, is of this one.
    ///
    /// # Errors
    /// The stores differ in schema, capacity or number of ranks; or a rank is missing, or there twice.
    pub fn of_ranks(&self, readers: &[Reader]) -> Result<Self> {
        let own = &*self.shared;
        let mut ranks: Vec<Arc<Shared>> = readers.iter().map(|reader| Arc::clone(&reader.shared)).collect();
        ranks.sort_by_key(|other| other.shard.rank());
        for other in &ranks {
            other.segment.expect_schema(own.segment.schema())?;
        }
        let found: Vec<Shard> = ranks.iter().map(|other| other.shard).collect();
        let expected = own.shard.all();
        if !expected.clone().eq(found.iter().copied()) {
            return Err(Error::invalid(format!(
                "the stores are {found:?}; all ranks of one index space are {:?}",
                expected.collect::<Vec<_>>()
            )));
        }
        Ok(Self { shared: Arc::clone(&self.shared), ranks: ranks.into() })
    }

    /// What has an index.
    pub(super) fn owner(&self, index: u64) -> Result<&Shared> {
        let owner = self.shared.shard.owner(index).and_then(|rank| self.ranks.get(narrow(rank)));
        match owner {
            Some(owner) => Ok(owner),
            // An error, too, if it is another rank's.
            None => self.shared.shard.local(index).map(|_| &*self.shared),
        }
    }

    /// Which of the joined stores has an index, and its row there; 0 for the only one.
    pub(crate) fn place(&self, index: u64) -> Result<(usize, u64)> {
        let local = self.owner(index)?.shard.local(index)?;
        let rank = if self.ranks.is_empty() { 0 } else { self.shared.shard.owner(index).unwrap_or(0) };
        Ok((narrow(rank), local))
    }

    /// The segments of the joined stores, or the only one.
    pub(crate) fn segments(&self) -> Vec<&Arc<Segment>> {
        if self.ranks.is_empty() {
            return vec![&self.shared.segment];
        }
        self.ranks.iter().map(|rank| &rank.segment).collect()
    }

    /// Whether both read the same store, or the same stores.
    pub(crate) fn is(&self, other: &Reader) -> bool {
        Arc::ptr_eq(&self.shared.segment, &other.shared.segment)
            && (Arc::ptr_eq(&self.ranks, &other.ranks) || self.ranks.len() + other.ranks.len() == 0)
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

    /// A number that is another one after any change of a weight of this rank: who has asked for it and then copied the
    /// weights has the newest ones for as long as it stays.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.shared.segment.changes()
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
        let mut pinned = Pinned::new(self.clone(), indices.len());
        let mut missing = Vec::new();
        for (position, &index) in indices.iter().enumerate() {
            match self.pin_one(index, true)? {
                Some(row) => {
                    let committed = self.owner(index)?.segment.committed().load(Ordering::Relaxed);
                    self.shared.metrics.aged(committed.saturating_sub(row.inserted + 1));
                    pinned.push(row);
                }
                None => missing.push(position),
            }
        }
        Ok((pinned, missing))
    }

    /// Pins those of the trajectories that are there without counting it: nobody samples them, or somebody else has
    /// counted it.
    ///
    /// # Errors
    /// As [`pin_present`](Self::pin_present).
    pub fn hold(&self, indices: &[u64]) -> Result<Pinned> {
        let mut pinned = Pinned::new(self.clone(), indices.len());
        for &index in indices {
            if let Some(row) = self.pin_one(index, false)? {
                pinned.push(row);
            }
        }
        Ok(pinned)
    }

    fn pin_one(&self, index: u64, sample: bool) -> Result<Option<PinnedRow>> {
        let owner = self.owner(index)?;
        let Shared { segment, slot, shard, .. } = owner;
        let at = narrow(shard.local(index)?);
        let count = &segment.pins(*slot)[at];
        let Some(generation) = owner.pin_count(at, count)? else { return Ok(None) };
        crate::kill::kill_point!("pinned");
        let sampled =
            if sample { owner.sample(at) } else { Some(segment.sampled()[at].load(Ordering::Relaxed)) };
        let Some(sampled) = sampled else {
            pin::unpin(count);
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
}

impl Shared {
    fn pin_count(&self, at: usize, count: &AtomicU32) -> Result<Option<u64>> {
        let state = &self.segment.states()[at];
        for _ in 0..LOOKS {
            match pin::pin(state, count) {
                Pin::Held(generation) => return Ok(Some(generation)),
                Pin::Refused => return Ok(None),
                Pin::Undecided => std::thread::yield_now(),
            }
        }
        self.segment.check_owner()?;
        Err(Error::unavailable("the controller takes unusually long to decide about a row; try again"))
    }

    /// Counts that a pinned row is sampled; `None` if it was sampled as often as it may be.
    fn sample(&self, at: usize) -> Option<u64> {
        let segment = &self.segment;
        let sampled = &segment.sampled()[at];
        let before = sampled.fetch_add(1, Ordering::SeqCst);
        let limit = segment.header().shape.max_times_sampled;
        if limit > 0 && before >= limit {
            sampled.fetch_sub(1, Ordering::SeqCst);
            return None;
        }
        if before + 1 == limit {
            segment.weights()[at].store(0, Ordering::SeqCst);
            segment.note_change();
            segment.exhausted().fetch_add(1, Ordering::Release);
        }
        Some(before + 1)
    }

    /// Takes the pin of a row back.
    pub(super) fn release(&self, index: u64) {
        let local = self.shard.local(index).expect("was pinned by it");
        pin::unpin(&self.segment.pins(self.slot)[narrow(local)]);
    }

    /// Wakes who waits for a row.
    pub(super) fn tell_released(&self) {
        let (releases, waiting) = self.segment.releases();
        if waiting.load(Ordering::SeqCst) > 0 {
            releases.fetch_add(1, Ordering::SeqCst);
            futex::wake(releases);
        }
    }
}
