//! The division of the index space.

use crate::error::{Error, Result};

/// A store's share of the index space of `ranks` stores with the same capacity.
///
/// ```
/// use relive_gpu::Shard;
/// let shard = Shard::new(1, 2, 25)?;
/// assert_eq!(shard.global(1), 26);
/// assert_eq!(shard.local(26)?, 1);
/// assert_eq!(shard.owner(4), Some(0));
/// assert!(shard.local(4).is_err());
/// # Ok::<(), relive_gpu::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    rank: u64,
    ranks: u64,
    capacity: u64,
}

impl Shard {
    /// Returns the share of `rank`.
    ///
    /// # Errors
    /// The capacity or the number of ranks is 0, the rank is out of range, or there are more than 2^63 indices in all.
    pub fn new(rank: u64, ranks: u64, capacity: u64) -> Result<Self> {
        if capacity == 0 {
            return Err(Error::invalid("capacity is 0, but a store needs room for at least one trajectory"));
        }
        if rank >= ranks {
            return Err(Error::invalid(format!(
                "rank is {rank}, but it must be below the number of ranks, {ranks}"
            )));
        }
        if capacity.checked_mul(ranks).is_none_or(|all| all > i64::MAX as u64) {
            return Err(Error::invalid(format!(
                "{ranks} ranks of {capacity} trajectories have more than 2^63 indices"
            )));
        }
        Ok(Self { rank, ranks, capacity })
    }

    /// Returns the rank of the store.
    #[must_use]
    pub fn rank(&self) -> u64 {
        self.rank
    }

    /// Returns the number of stores.
    #[must_use]
    pub fn ranks(&self) -> u64 {
        self.ranks
    }

    /// Returns the shares of all ranks, in order.
    pub(crate) fn all(self) -> impl Iterator<Item = Self> + Clone {
        (0..self.ranks).map(move |rank| Self { rank, ..self })
    }

    /// Converts this rank's row `local` to an index over all ranks.
    ///
    /// # Panics
    /// If `local` is not below the capacity of a store.
    #[must_use]
    pub fn global(&self, local: u64) -> u64 {
        assert!(local < self.capacity, "row {local} is beyond the {} rows of a store", self.capacity);
        self.rank * self.capacity + local
    }

    /// Returns the rank that owns the given index, or `None` if the index is beyond the last rank's.
    #[must_use]
    pub fn owner(&self, index: u64) -> Option<u64> {
        Some(index / self.capacity).filter(|&rank| rank < self.ranks)
    }

    /// Converts an index over all ranks to a row of this rank.
    ///
    /// # Errors
    /// Another rank has the index, or no rank has it.
    pub fn local(&self, index: u64) -> Result<u64> {
        let local = index.wrapping_sub(self.global(0));
        if local < self.capacity {
            return Ok(local);
        }
        match self.owner(index) {
            Some(owner) => Err(Error::not_found(format!(
                "index {index} belongs to rank {owner}; this is rank {} with {} to {}",
                self.rank,
                self.global(0),
                self.global(self.capacity - 1)
            ))),
            None => Err(Error::not_found(format!(
                "index {index} is beyond the {} indices of {} ranks",
                self.ranks * self.capacity,
                self.ranks
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Defects 6 and 15: a global index is never used as a local one.
        #[test]
        fn every_index_has_one_owner(ranks in 1_u64..9, capacity in 1_u64..50, index in 0_u64..500) {
            let owners: Vec<u64> = (0..ranks)
                .filter(|&rank| Shard::new(rank, ranks, capacity).unwrap().local(index).is_ok())
                .collect();
            let expected: Vec<u64> = (0..ranks)
                .filter(|rank| (0..capacity).any(|local| rank * capacity + local == index))
                .collect();
            prop_assert_eq!(&owners, &expected);
            if let [owner] = owners[..] {
                let shard = Shard::new(owner, ranks, capacity).unwrap();
                prop_assert_eq!(shard.owner(index), Some(owner));
                prop_assert_eq!(shard.global(shard.local(index).unwrap()), index);
            }
        }
    }

    #[test]
    #[should_panic(expected = "row 4 is beyond the 4 rows of a store")]
    fn a_row_of_another_rank_has_no_index() {
        let _ = Shard::new(0, 2, 4).unwrap().global(4);
    }

    #[test]
    fn invalid_shards_are_refused() {
        for (rank, ranks, capacity, text) in [
            (0, 1, 0, "capacity is 0"),
            (1, 1, 4, "rank is 1"),
            (0, 0, 4, "rank is 0"),
            (0, 1 << 40, 1 << 40, "more than 2^63 indices"),
        ] {
            let error = Shard::new(rank, ranks, capacity).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }
}
