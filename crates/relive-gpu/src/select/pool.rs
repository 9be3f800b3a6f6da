//! The source of selections: the weights of a rank, in host or device memory.

use std::fmt;
use std::ops::Range;

use super::draws::{self, Draw, Places};
use super::grid::Grid;
use super::keys::{self, KeyKind, Scanned};
use super::philox::Numbers;
use super::smallest::Candidate;
use super::sums::Measure;
use super::weights::{Weights, WeightsConfig};
use crate::{Error, Result};

/// The totals of all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RankTotals {
    pub(crate) units: u64,
    pub(crate) selectable: u64,
}

/// The operations of a selection on the weights of one rank: on the CPU here, by kernels in `cuda`.
pub(crate) trait Rank {
    fn config(&self) -> &WeightsConfig;

    fn grid(&self) -> &Grid;

    /// Returns the number of insertion numbers.
    fn inserted(&self) -> u64;

    /// Returns the masses of this rank.
    fn whole(&self) -> Result<RankTotals>;

    /// Returns the `count` smallest keys, in order; fewer if fewer indices are selectable.
    fn smallest(&self, kind: KeyKind, numbers: &Numbers, count: u64) -> Result<Vec<Candidate>>;

    /// Returns the draws that fall into `own`, this rank's part of the whole mass, in order of position.
    fn draw(&self, measure: Measure, places: &Places, own: Range<u64>) -> Result<Vec<Draw>>;
}

/// The weights of a rank and, for FIFO and LIFO, the insertion number of each index.
pub struct Pool<'a>(pub(crate) Box<dyn Rank + 'a>);

impl fmt::Debug for Pool<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("config", self.0.config()).finish_non_exhaustive()
    }
}

impl<'a> Pool<'a> {
    /// Creates a pool for selections that do not need insertion numbers.
    #[must_use]
    pub fn new(weights: &'a Weights) -> Self {
        Self::with_inserted(weights, &[])
    }

    /// Creates a pool for all selections. `inserted` contains the insertion number of each index of the rank; across
    /// all ranks, later insertions have larger numbers.
    #[must_use]
    pub fn with_inserted(weights: &'a Weights, inserted: &'a [u64]) -> Self {
        Self(Box::new(Scanned { weights, inserted }))
    }

    pub(crate) fn check(&self, kind: KeyKind) -> Result<()> {
        let (there, wanted) = (self.0.inserted(), self.0.config().capacity);
        if matches!(kind, KeyKind::Oldest | KeyKind::Newest) && there != wanted {
            return Err(Error::invalid(format!(
                "FIFO and LIFO need the insertion number of each of the {wanted} indices, got {there}"
            )));
        }
        Ok(())
    }
}

impl Rank for Scanned<'_> {
    fn config(&self) -> &WeightsConfig {
        self.weights.config()
    }

    fn grid(&self) -> &Grid {
        self.weights.grid()
    }

    fn inserted(&self) -> u64 {
        self.inserted.len() as u64
    }

    fn whole(&self) -> Result<RankTotals> {
        Ok(RankTotals { units: self.weights.units.total(), selectable: self.weights.selectable() })
    }

    fn smallest(&self, kind: KeyKind, numbers: &Numbers, count: u64) -> Result<Vec<Candidate>> {
        let capacity = self.weights.weights().len();
        let count = usize::try_from(count).unwrap_or(capacity).min(capacity);
        Ok(keys::smallest(kind, *self, numbers, count))
    }

    fn draw(&self, measure: Measure, places: &Places, own: Range<u64>) -> Result<Vec<Draw>> {
        Ok(draws::draw(self.weights, measure, places, own))
    }
}
