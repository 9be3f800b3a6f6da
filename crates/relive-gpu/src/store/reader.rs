//! Reads trajectories, in this process or another, while they are protected from replacement.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::place::{Shared, StorePlace};
use super::shard::Shard;
use crate::bytes::{narrow, wide};
use crate::error::{Error, Result};
use crate::memory::claims;
use crate::memory::identity::Identity;
use crate::memory::segment::Segment;
use crate::metrics::{Metrics, MetricsSnapshot};
use crate::peers::Peer;
use crate::schema::Schema;

/// A process's access to a store that it or another process created. Cheap to clone.
///
/// After a fork, the child must attach again, because pins belong to a process and end with it.
///
/// Readers of the ranks' stores on this machine and [peers](Peer) for the others combine into one reader of the whole
/// index space: see [`of_ranks`](Self::of_ranks).
#[derive(Clone, Debug)]
pub struct Reader {
    shared: Arc<Shared>,
    /// The stores of all ranks in order, including this one; only this one unless they were joined.
    ranks: Arc<[StorePlace]>,
}

impl Reader {
    /// Attaches to the store with the given name.
    ///
    /// # Errors
    /// No store has this name; its schema differs from the expected one (the error shows both); its controller has
    /// ended; or all its reader slots are taken.
    pub fn attach(name: &str, expected: Option<&Schema>) -> Result<Self> {
        Self::with(Segment::open(name)?, expected)
    }

    /// Attaches to the store whose descriptor ([`Store::descriptor`](crate::Store::descriptor)) another process has
    /// passed on.
    ///
    /// # Errors
    /// Same as [`attach`](Self::attach).
    pub fn attach_descriptor(descriptor: OwnedFd, expected: Option<&Schema>) -> Result<Self> {
        Self::with(Segment::from_descriptor(descriptor)?, expected)
    }

    fn with(segment: Segment, expected: Option<&Schema>) -> Result<Self> {
        if let Some(schema) = expected {
            segment.expect_schema(schema)?;
        }
        Self::new(Arc::new(segment), Arc::default())
    }

    /// Creates a reader of a segment that this process has mapped.
    pub(crate) fn new(segment: Arc<Segment>, metrics: Arc<Metrics>) -> Result<Self> {
        let shape = segment.header().shape;
        let shard = Shard::new(shape.rank, shape.ranks, shape.capacity)
            .map_err(|error| Error::corrupt(format!("the header of {}: {error}", segment.what())))?;
        let identity = Identity::current()?;
        let free = claims::claim_free(segment.claims(), identity);
        let dead = || {
            let slot = claims::claim_dead(segment.claims(), identity)?;
            // The dead reader may have counted the last sample of a trajectory without recording that it is exhausted.
            segment.exhausted().fetch_add(1, Ordering::Release);
            Some(slot)
        };
        let Some(slot) = free.or_else(dead) else {
            return Err(Error::unavailable(format!(
                "all {} reader slots of {} are taken; create the store with more `readers`",
                shape.readers,
                segment.what()
            )));
        };
        // Clears the pins of a reader that ended without leaving.
        segment.pins(slot).iter().filter(|count| count.load(Ordering::Relaxed) > 0).for_each(|count| {
            count.store(0, Ordering::SeqCst);
        });
        Ok(Self::of(Arc::new(Shared { segment, slot, shard, metrics })))
    }

    fn of(shared: Arc<Shared>) -> Self {
        Self { ranks: Arc::new([StorePlace::Local(Arc::clone(&shared))]), shared }
    }

    /// Returns a reader of this rank's store only.
    pub(crate) fn alone(&self) -> Self {
        Self::of(Arc::clone(&self.shared))
    }

    /// Returns the reader of all ranks' stores: it pins any index, and collectors copy from the store that has it.
    /// `readers` are the readers of the ranks in this machine's memory, including this one, and `peers` are the peers
    /// for the other ranks, in any order. Properties of a store, such as weights and counters, refer to this reader's
    /// store.
    ///
    /// # Errors
    /// The stores differ in schema, capacity or number of ranks; or a rank is missing or occurs twice.
    pub fn of_ranks(&self, readers: &[Reader], peers: &[Peer]) -> Result<Self> {
        let own = &*self.shared;
        for reader in readers {
            reader.shared.segment.expect_schema(own.segment.schema())?;
        }
        if let Some(peer) = peers.iter().find(|peer| peer.schema() != own.segment.schema()) {
            let (theirs, ours) = (peer.schema().describe(), own.segment.schema().describe());
            return Err(Error::invalid(format!("{} has {theirs}, but this store has {ours}", peer.what())));
        }
        let local = readers.iter().map(|reader| StorePlace::Local(Arc::clone(&reader.shared)));
        let remote = peers.iter().map(|peer| StorePlace::Remote(peer.clone()));
        let ranks = local.chain(remote).map(|place| Ok((place.shard()?, place)));
        let mut ranks = ranks.collect::<Result<Vec<(Shard, StorePlace)>>>()?;
        ranks.sort_by_key(|(shard, _)| shard.rank());
        let expected = own.shard.all();
        if !expected.clone().eq(ranks.iter().map(|(shard, _)| *shard)) {
            let found: Vec<Shard> = ranks.iter().map(|(shard, _)| *shard).collect();
            return Err(Error::invalid(format!(
                "the stores are {found:?}, but the ranks of one index space must be {:?}",
                expected.collect::<Vec<_>>()
            )));
        }
        let ranks = ranks.into_iter().map(|(_, place)| place).collect();
        Ok(Self { shared: Arc::clone(&self.shared), ranks })
    }

    /// Returns the position of the joined store that has the given index; 0 for a single store.
    pub(crate) fn rank_of(&self, index: u64) -> Result<usize> {
        let shard = self.shared.shard;
        if self.ranks.len() == 1 {
            return shard.local(index).map(|_| 0);
        }
        match shard.owner(index) {
            Some(rank) => Ok(narrow(rank)),
            // The error is the same in all ranks.
            None => shard.local(index).map(|_| 0),
        }
    }

    /// Returns the place of the store that has the given index.
    pub(crate) fn place(&self, index: u64) -> Result<&StorePlace> {
        Ok(&self.ranks[self.rank_of(index)?])
    }

    /// Returns the joined stores, or the single one.
    pub(crate) fn places(&self) -> &[StorePlace] {
        &self.ranks
    }

    /// Returns whether the two readers read the same store, or the same stores.
    pub(crate) fn is(&self, other: &Reader) -> bool {
        Arc::ptr_eq(&self.shared.segment, &other.shared.segment)
            && (Arc::ptr_eq(&self.ranks, &other.ranks) || self.ranks.len() + other.ranks.len() == 2)
    }

    /// Returns the schema of the trajectories.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        self.shared.segment.schema()
    }

    /// Returns this store's share of the index space.
    #[must_use]
    pub fn shard(&self) -> Shard {
        self.shared.shard
    }

    /// Returns the capacity in trajectories.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.shared.segment.capacity()
    }

    /// Returns how many times a trajectory of this rank can be sampled; 0 means that there is no limit.
    #[must_use]
    pub fn max_times_sampled(&self) -> u64 {
        self.shared.segment.header().shape.max_times_sampled
    }

    /// Returns the counters of this process's use of the store.
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

    /// Returns a number that changes whenever one of this rank's weights changes. A copy of the weights that was made
    /// after this number was read remains current for as long as the number stays the same.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.shared.segment.changes()
    }

    /// Copies the weights of all rows of this rank, 0 for those that are not selectable.
    ///
    /// # Errors
    /// The length of `out` is not the number of rows.
    pub fn read_weights(&self, out: &mut [f32]) -> Result<()> {
        self.check_places(out.len())?;
        let weights = self.shared.segment.weights();
        out.iter_mut().zip(weights).for_each(|(out, weight)| {
            *out = f32::from_bits(weight.load(Ordering::Relaxed));
        });
        Ok(())
    }

    /// Copies the insertion numbers of all rows of this rank: trajectories with a lower number were committed earlier.
    /// The numbers are only meaningful for rows with a positive weight.
    ///
    /// # Errors
    /// The length of `out` is not the number of rows.
    pub fn read_inserted(&self, out: &mut [u64]) -> Result<()> {
        self.check_places(out.len())?;
        let inserted = self.shared.segment.inserted();
        out.iter_mut().zip(inserted).for_each(|(out, number)| *out = number.load(Ordering::Acquire));
        Ok(())
    }

    fn check_places(&self, places: usize) -> Result<()> {
        let capacity = self.shared.segment.capacity();
        if wide(places) != capacity {
            return Err(Error::invalid(format!(
                "got {places} places for {capacity} rows; pass one for each"
            )));
        }
        Ok(())
    }
}
