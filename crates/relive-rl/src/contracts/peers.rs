//! The group of a run's learners, as seen by one of them.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use relive_cluster::reduce::{Reduction, Ring};

use crate::{Result, RlError};

/// The group of a run's learners, as seen by one of them. Clones are cheap.
///
/// All learners make the same calls in the same order, and each call waits for the other learners. With a single
/// learner, each call returns its own input.
#[derive(Clone)]
pub struct Peers {
    rank: u32,
    count: u32,
    /// Empty until all learners have joined.
    ring: Arc<OnceLock<Ring>>,
}

impl Peers {
    /// Creates a group of a single learner.
    #[must_use]
    pub fn alone() -> Peers {
        Peers::from(Ring::alone())
    }

    /// Creates a group of `count` learners that have not joined yet, as seen by learner 0.
    pub(crate) fn expected(count: u32) -> Peers {
        Peers { rank: 0, count, ring: Arc::default() }
    }

    /// Records that all learners have joined.
    pub(crate) fn meet(&self, ring: Ring) -> Result<()> {
        self.ring.set(ring).map_err(|_| RlError::Order { call: "a meeting of learners", needs: "one ring" })
    }

    /// Returns the rank of this learner, counted from 0.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Returns the number of learners.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns whether this learner is the only one.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.count == 1
    }

    /// Returns this learner's share of `of` elements. The shares of all learners are disjoint, cover everything, and
    /// differ in size by at most one.
    #[must_use]
    pub fn part(&self, of: usize) -> Range<usize> {
        let (rank, count) = (self.rank as usize, self.count as usize);
        of * rank / count..of * (rank + 1) / count
    }

    /// Replaces each learner's numbers with the mean over all learners. The results of all learners are identical, bit
    /// for bit.
    ///
    /// # Errors
    /// [`Learners`](RlError::Learners): another learner is lost or has made a different call.
    pub fn mean(&self, numbers: &mut [f32]) -> Result<()> {
        if self.is_alone() { Ok(()) } else { Ok(self.ring()?.all_reduce(numbers, Reduction::Mean)?) }
    }

    /// Returns the numbers passed by all learners, ordered by rank. All learners must pass the same number of values.
    ///
    /// # Errors
    /// Same as [`mean`](Self::mean).
    pub fn gather(&self, numbers: &[f64]) -> Result<Vec<Vec<f64>>> {
        Ok(self.ring()?.gather(numbers)?)
    }

    /// Replaces the bytes of all learners with the bytes of learner 0; lengths may differ.
    ///
    /// # Errors
    /// Same as [`mean`](Self::mean).
    pub fn broadcast(&self, bytes: &mut Vec<u8>) -> Result<()> {
        if self.is_alone() { Ok(()) } else { Ok(self.ring()?.broadcast(bytes)?) }
    }

    /// Checks, without waiting, that all learners are alive. Also succeeds before the learners have joined.
    pub(crate) fn check(&self) -> Result<()> {
        self.ring.get().map_or(Ok(()), |ring| Ok(ring.check()?))
    }

    /// Records that this learner has finished.
    pub(crate) fn leave(&self) {
        self.ring.get().into_iter().for_each(Ring::leave);
    }

    /// Records that this learner cannot continue, and sends the reason to the others.
    pub(crate) fn fail(&self, reason: &str) {
        self.ring.get().into_iter().for_each(|ring| ring.fail(reason));
    }

    fn ring(&self) -> Result<&Ring> {
        self.ring.get().ok_or(RlError::Order { call: "learning together", needs: "learners that have met" })
    }
}

impl Default for Peers {
    fn default() -> Self {
        Peers::alone()
    }
}

/// Learners that already have a ring.
impl From<Ring> for Peers {
    fn from(ring: Ring) -> Peers {
        let (rank, count) = (ring.rank(), ring.ranks());
        Peers { rank, count, ring: Arc::new(OnceLock::from(ring)) }
    }
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peers").field("rank", &self.rank).field("count", &self.count).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_complete_and_as_even_as_possible() {
        for count in 1..=5_u32 {
            for of in 0..=13 {
                let parts = (0..count).map(|rank| Peers { rank, count, ring: Arc::default() }.part(of));
                let parts: Vec<Range<usize>> = parts.collect();
                let cells: Vec<usize> = parts.iter().cloned().flatten().collect();
                assert_eq!(cells, (0..of).collect::<Vec<_>>());
                let sizes = || parts.iter().map(ExactSizeIterator::len);
                assert!(sizes().max() <= sizes().min().map(|least| least + 1), "{count} of {of}");
            }
        }
    }

    #[test]
    fn learners_that_are_not_connected_report_it() {
        let error = Peers::expected(2).mean(&mut [1.0]).unwrap_err().to_string();
        assert_eq!(error, "learning together needs learners that have met");
        assert!(Peers::alone().mean(&mut [1.0]).is_ok());
    }
}
