//! Kinds of selections, and their results.

use super::keys::KeyKind;
use super::sums::Measure;
use crate::{Error, Result};

/// How indices are selected. Indices without a positive weight are never selected.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Selection {
    /// Every selectable index with the same probability, with replacement.
    Uniform,
    /// In proportion to the masses (weights to the power of their exponent), with replacement.
    Weighted,
    /// Like [`Weighted`](Self::Weighted), but draw j is within the j-th of `count` equal parts of the whole mass: this
    /// gives fewer repetitions, with the same overall probabilities.
    Stratified,
    /// Prioritized replay (Schaul et al., 2016, sections 3.3 and 3.4): weighted draws with importance weights (N ·
    /// p)^-β, divided by the largest of the batch. α is the exponent of the [weights](super::WeightsConfig::exponent).
    Prioritized {
        /// β, at least 0: 0 means that all importance weights are 1.
        beta: f32,
        /// Draws as for [`Stratified`](Self::Stratified), as in the paper.
        stratified: bool,
    },
    /// The largest weights, each index once; ties are broken by the lower index.
    TopK,
    /// The indices inserted first, each once; ties are broken by the lower index.
    Fifo,
    /// The indices inserted last, each once; ties are broken by the lower index.
    Lifo,
    /// In proportion to the masses, each index once, as if each drawn index were removed before the next draw. This is
    /// selection by the largest log(mass) + Gumbel number, in the form of a [race](super::race).
    WithoutReplacement,
}

/// The method of a selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    Draws { measure: Measure, stratified: bool },
    Smallest(KeyKind),
}

impl Selection {
    pub(crate) fn plan(self) -> Plan {
        let weighted = |stratified| Plan::Draws { measure: Measure::Units, stratified };
        match self {
            Self::Uniform => Plan::Draws { measure: Measure::Count, stratified: false },
            Self::Weighted => weighted(false),
            Self::Stratified => weighted(true),
            Self::Prioritized { stratified, .. } => weighted(stratified),
            Self::TopK => Plan::Smallest(KeyKind::Largest),
            Self::Fifo => Plan::Smallest(KeyKind::Oldest),
            Self::Lifo => Plan::Smallest(KeyKind::Newest),
            Self::WithoutReplacement => Plan::Smallest(KeyKind::Race),
        }
    }

    /// Returns a number that encodes the selection, so that ranks can detect differing requests.
    pub(crate) fn code(self) -> u64 {
        match self {
            Self::Uniform => 0,
            Self::Weighted => 1,
            Self::Stratified => 2,
            Self::Prioritized { beta, stratified } => {
                u64::from(beta.to_bits()) << 8 | if stratified { 4 } else { 3 }
            }
            Self::TopK => 5,
            Self::Fifo => 6,
            Self::Lifo => 7,
            Self::WithoutReplacement => 8,
        }
    }

    /// Checks that the selection is valid. Every selection also performs this check.
    ///
    /// # Errors
    /// β is not between 0 and [`MAX_BETA`].
    pub fn check(self) -> Result<()> {
        match self {
            Self::Prioritized { beta, .. } if !(0.0..=MAX_BETA).contains(&beta) => {
                Err(Error::invalid(format!("beta is {beta}, but it must be between 0 and {MAX_BETA}")))
            }
            _ => Ok(()),
        }
    }
}

/// The largest β.
pub const MAX_BETA: f32 = 16.0;

/// The order of the selected indices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The order of the draws; for selections of distinct indices, the first choice first.
    #[default]
    AsDrawn,
    /// By index. Collection from large stores is then faster, because neighboring rows share pages.
    ByIndex,
}

/// Selected indices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selected {
    /// Global indices.
    pub indices: Vec<u64>,
    /// The probability of each index in one draw; 1 for `TopK`, `Fifo` and `Lifo`.
    pub probabilities: Vec<f32>,
    /// Importance weights; all 1 unless the selection is prioritized.
    pub importance: Vec<f32>,
}

impl Selected {
    /// Returns the share of one of `ranks` ranks. The list is divided into runs of equal length; if its length is not
    /// divisible, the first runs have one more entry.
    ///
    /// # Panics
    /// If `rank` is not below `ranks`.
    #[must_use]
    pub fn share(&self, rank: usize, ranks: usize) -> Self {
        assert!(rank < ranks, "rank is {rank}, but it must be below the number of ranks, {ranks}");
        let count = self.indices.len();
        let begin = |rank: usize| rank * (count / ranks) + rank.min(count % ranks);
        let range = begin(rank)..begin(rank + 1);
        Self {
            indices: self.indices[range.clone()].to_vec(),
            probabilities: self.probabilities[range.clone()].to_vec(),
            importance: self.importance[range].to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "rank is 2, but it must be below the number of ranks, 2")]
    fn a_rank_out_of_range_has_no_share() {
        let _ = Selected::default().share(2, 2);
    }
}
