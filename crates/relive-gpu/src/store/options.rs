//! How a store is made.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::shard::Shard;
use crate::error::{Error, Result};
use crate::memory::Tier;
use crate::memory::header::Header;
use crate::memory::layout::Shape;
use crate::schema::Schema;

/// Most reader slots of a segment.
pub const MAX_READERS: u32 = 1024;
/// Most writer slots of a segment.
pub const MAX_WRITERS: u32 = 65_536;

/// A row that may be removed, as a [callback](Removal::Callback) sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Of all ranks together.
    pub index: u64,
    /// Of this trajectory: the row's next one has a higher generation.
    pub generation: u64,
    /// Number of steps.
    pub length: u64,
    /// The weight by which it is drawn.
    pub weight: f32,
    /// Number of trajectories that were committed before it.
    pub inserted: u64,
    /// How often it was pinned.
    pub sampled: u64,
}

/// Chooses a victim among candidates by its position; `None` removes nobody.
pub type Choose = Arc<dyn Fn(&[Candidate]) -> Option<usize> + Send + Sync>;

/// Which trajectory goes when there is no room for another one. One that is pinned is skipped.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Removal {
    /// The oldest.
    #[default]
    Fifo,
    /// The newest of those that are there already.
    Lifo,
    /// The one with the lowest weight; among equals the oldest.
    LowestWeight,
    /// Any, each as likely as the others, by the store's seed.
    Random,
    /// A trajectory goes once it was pinned this often; from then on nobody can pin it. If there is none, the oldest.
    MaxTimesSampled(u64),
    /// The caller's choice. It may use the store, but must not serve its writers. Takes time in proportion to the
    /// capacity.
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
    /// The strategy's number in checkpoints.
    pub(crate) fn number(&self) -> u64 {
        match self {
            Self::Fifo => 0,
            Self::Lifo => 1,
            Self::LowestWeight => 2,
            Self::Random => 3,
            Self::MaxTimesSampled(_) => 4,
            Self::Callback(_) => 5,
        }
    }

    /// 0 = without limit.
    pub(crate) fn max_times_sampled(&self) -> u64 {
        if let Self::MaxTimesSampled(times) = self { *times } else { 0 }
    }
}

/// How a store is made. All fields have defaults but the capacity:
///
/// ```
/// use relive_gpu::{Removal, StoreOptions};
/// let options = StoreOptions { removal: Removal::Lifo, seed: 3, ..StoreOptions::new(1000) };
/// assert_eq!(options.capacity, 1000);
/// ```
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Number of trajectories for which there is room.
    pub capacity: u64,
    /// Which trajectory goes when another one needs its place.
    pub removal: Removal,
    /// At a commit beyond this number of selectable trajectories, at most the capacity, one goes. If all are pinned,
    /// the number is exceeded until the next commit.
    pub max_selectable: Option<u64>,
    /// Of the random removal.
    pub seed: u64,
    /// Whether huge pages are asked for. Where the system gives none, small ones serve.
    pub huge_pages: bool,
    /// Threads that put memory behind the segment when it is made, so that a lack of memory shows then and not at a
    /// write. With 0 memory comes as it is written.
    pub touch_threads: usize,
    /// This store's place among `ranks` stores of the same capacity: its indices are `rank · capacity` to
    /// `(rank + 1) · capacity - 1`.
    pub rank: u64,
    /// Number of stores that share the index space.
    pub ranks: u64,
    /// Processes that may read at the same time, this one included. Each has a count of 4 bytes per trajectory.
    pub readers: u32,
    /// Writers that may be attached at the same time.
    pub writers: u32,
    /// Where columns lie, by name; those without an entry are in host memory.
    pub tiers: BTreeMap<String, Tier>,
}

impl StoreOptions {
    /// Defaults: oldest first, 16 readers, 64 writers, host memory in huge pages touched by 2 threads, one rank.
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

    /// The header of a segment of these options.
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
            return Err(Error::invalid("MaxTimesSampled(0): nothing could be sampled; use 1 or more"));
        }
        for name in self.tiers.keys() {
            schema.position(name)?;
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
