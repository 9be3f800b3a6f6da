//! Options for a store.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::shard::Shard;
use crate::error::{Error, Result};
use crate::memory::Tier;
use crate::memory::header::Header;
use crate::memory::layout::Shape;
use crate::schema::Schema;

/// The maximum number of reader slots of a segment.
pub const MAX_READERS: u32 = 1024;
/// The maximum number of writer slots of a segment.
pub const MAX_WRITERS: u32 = 65_536;

/// A trajectory in a store: one that is pinned, or one that may be evicted, as a [callback](Removal::Callback) sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trajectory {
    /// The index over all ranks.
    pub index: u64,
    /// The generation of this trajectory; the row's next trajectory has a higher generation.
    pub generation: u64,
    /// The number of steps.
    pub length: u64,
    /// The weight with which it is drawn.
    pub weight: f32,
    /// The number of trajectories committed before it.
    pub inserted: u64,
    /// The number of times that it was pinned, including its current pin if it is a sample.
    pub sampled: u64,
}

/// Chooses a victim among the candidates and returns its position; `None` evicts nothing.
pub type Choose = Arc<dyn Fn(&[Trajectory]) -> Option<usize> + Send + Sync>;

/// Which trajectory is evicted when another one needs room. Pinned trajectories are skipped.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Removal {
    /// The oldest.
    #[default]
    Fifo,
    /// The newest trajectory.
    Lifo,
    /// The trajectory with the lowest weight; among trajectories with equal weights, the oldest.
    LowestWeight,
    /// A uniformly random trajectory, from the store's seed.
    Random,
    /// A trajectory is evicted once it has been pinned this many times; after that, it cannot be pinned. If there is no
    /// such trajectory, the oldest one is evicted.
    MaxTimesSampled(u64),
    /// The caller's choice. The callback may use the store, but must not serve its writers. Takes time proportional to
    /// the capacity.
    Callback(Choose),
}

impl fmt::Debug for Removal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fifo => f.write_str("Fifo"),
            Self::Lifo => f.write_str("Lifo"),
            Self::LowestWeight => f.write_str("LowestWeight"),
            Self::Random => f.write_str("Random"),
            Self::MaxTimesSampled(times) => write!(f, "MaxTimesSampled({times})"),
            Self::Callback(_) => f.write_str("Callback"),
        }
    }
}

impl Removal {
    /// The number of random removal in checkpoints.
    pub(crate) const RANDOM: u64 = 3;

    /// Returns the strategy's number in checkpoints.
    pub(crate) fn number(&self) -> u64 {
        match self {
            Self::Fifo => 0,
            Self::Lifo => 1,
            Self::LowestWeight => 2,
            Self::Random => Self::RANDOM,
            Self::MaxTimesSampled(_) => 4,
            Self::Callback(_) => 5,
        }
    }

    /// Returns the strategy with this [number](Self::number), or `None` for a callback, which is not in checkpoints.
    ///
    /// # Errors
    /// No strategy has this number.
    pub(crate) fn from_number(number: u64, max_times_sampled: u64) -> Result<Option<Self>, String> {
        match number {
            0 => Ok(Some(Self::Fifo)),
            1 => Ok(Some(Self::Lifo)),
            2 => Ok(Some(Self::LowestWeight)),
            Self::RANDOM => Ok(Some(Self::Random)),
            4 => Ok(Some(Self::MaxTimesSampled(max_times_sampled))),
            5 => Ok(None),
            unknown => Err(format!("the unknown removal strategy {unknown}")),
        }
    }

    /// 0 means unlimited.
    pub(crate) fn max_times_sampled(&self) -> u64 {
        if let Self::MaxTimesSampled(times) = self { *times } else { 0 }
    }
}

/// Options for a store. All fields except the capacity have defaults:
///
/// ```
/// use relive_gpu::{Removal, StoreOptions};
/// let options = StoreOptions { removal: Removal::Lifo, seed: 3, ..StoreOptions::new(1000) };
/// assert_eq!(options.capacity, 1000);
/// ```
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Capacity in trajectories.
    pub capacity: u64,
    /// Which trajectory is evicted when another one needs its place.
    pub removal: Removal,
    /// The maximum number of selectable trajectories, which is at most the capacity. A commit that exceeds it evicts a
    /// trajectory. If all are pinned, the maximum stays exceeded until the next commit.
    pub max_selectable: Option<u64>,
    /// The seed of the random removal.
    pub seed: u64,
    /// Whether to request huge pages. If the system has none, small pages are used.
    pub huge_pages: bool,
    /// The number of threads that touch the segment's memory when it is created, so that a lack of memory is detected
    /// at that time rather than during a write. With 0, memory is allocated when it is first written to.
    pub touch_threads: usize,
    /// This store's position among `ranks` stores with the same capacity. Its indices are `rank · capacity` to `(rank +
    /// 1) · capacity - 1`.
    pub rank: u64,
    /// The number of stores that share the index space.
    pub ranks: u64,
    /// The number of processes that may read at the same time, including this one. Each has a count of 4 bytes per
    /// trajectory.
    pub readers: u32,
    /// The number of writers that may be attached at the same time.
    pub writers: u32,
    /// Places of columns, by name; columns without an entry are in host memory.
    pub tiers: BTreeMap<String, Tier>,
}

impl StoreOptions {
    /// Creates options with the defaults: oldest first, 16 readers, 64 writers, host memory in huge pages touched by 2
    /// threads, one rank.
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        Self {
            capacity,
            removal: Removal::Fifo,
            max_selectable: None,
            seed: 0,
            huge_pages: true,
            touch_threads: 2,
            rank: 0,
            ranks: 1,
            readers: 16,
            writers: 64,
            tiers: BTreeMap::new(),
        }
    }

    /// Returns the header of a segment with the given options.
    pub(crate) fn header(&self, schema: Schema) -> Result<Header> {
        Shard::new(self.rank, self.ranks, self.capacity)?;
        for (what, value, least, most) in
            [("readers", self.readers, 1, MAX_READERS), ("writers", self.writers, 0, MAX_WRITERS)]
        {
            if value < least || value > most {
                return Err(Error::invalid(format!("{what} is {value}; it must be {least} to {most}")));
            }
        }
        if let Some(most) = self.max_selectable
            && (most == 0 || most > self.capacity)
        {
            return Err(Error::invalid(format!(
                "max_selectable is {most}; it must be 1 to the capacity, {}, or None",
                self.capacity
            )));
        }
        if matches!(self.removal, Removal::MaxTimesSampled(0)) {
            return Err(Error::invalid("MaxTimesSampled(0) would not permit any sample; use at least 1"));
        }
        for name in self.tiers.keys() {
            schema.position(name).map_err(|error| Error::invalid(error.to_string()))?;
        }
        let tiers =
            schema.columns().iter().map(|column| self.tiers.get(&column.name).cloned().unwrap_or_default());
        let tiers = tiers.collect();
        let shape = Shape {
            capacity: self.capacity,
            readers: self.readers,
            writers: self.writers,
            rank: self.rank,
            ranks: self.ranks,
            max_times_sampled: self.removal.max_times_sampled(),
        };
        Header::new(schema, shape, tiers)
    }
}
