//! How an agent acts, and what its replay is.

use relive_table::{SelectorKind, TableConfig};
use serde::Serialize;

use crate::plan::ReplayTable;
use crate::{Pace, Result, RlError};

/// The table that transitions are in.
pub(crate) const TABLE: &str = "replay";

/// How an agent acts, and what its replay is. The defaults are those of Acme's DQN.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Experience {
    /// Transitions of a batch.
    pub batch_size: usize,
    /// How often each step is learned from, on average.
    pub samples_per_insert: f64,
    /// Steps of a transition.
    pub n_step: usize,
    /// The agent's discount γ.
    pub discount: f32,
    /// Steps before learning begins.
    pub min_replay_size: usize,
    /// Transitions that are kept.
    pub max_replay_size: u64,
    /// How much priorities count when transitions are sampled; 0: not at all.
    pub priority_exponent: f64,
    /// The share of actions that are taken at random.
    pub epsilon: f64,
}

impl Default for Experience {
    fn default() -> Self {
        Self {
            batch_size: 256,
            samples_per_insert: 32.0,
            n_step: 5,
            discount: 0.99,
            min_replay_size: 1_000,
            max_replay_size: 1_000_000,
            priority_exponent: 0.6,
            epsilon: 0.05,
        }
    }
}

impl Experience {
    /// Whether all settings are within their ranges.
    ///
    /// # Errors
    /// The first that is not.
    pub fn validate(&self) -> Result<()> {
        let share = |name, value: f64| check(name, value, (0.0..=1.0).contains(&value), "from 0 to 1");
        let whole = |name, value: usize| check(name, value, value >= 1, "at least 1");
        whole("batch_size", self.batch_size)?;
        whole("n_step", self.n_step)?;
        whole("min_replay_size", self.min_replay_size)?;
        let ratio = self.samples_per_insert;
        check("samples_per_insert", ratio, ratio > 0.0 && ratio.is_finite(), "above 0")?;
        share("discount", f64::from(self.discount))?;
        share("epsilon", self.epsilon)?;
        let fits = u64::try_from(self.min_replay_size).is_ok_and(|least| least <= self.max_replay_size);
        check("max_replay_size", self.max_replay_size, fits, "at least min_replay_size")
    }

    /// How much is learned from each step.
    #[must_use]
    pub fn pace(&self) -> Pace {
        Pace {
            batch_size: self.batch_size,
            samples_per_insert: self.samples_per_insert,
            min_observations: self.min_replay_size.max(self.batch_size) as u64,
        }
    }

    /// The replay table, which keeps actors and learner in step: `samples_per_insert` transitions are sampled for each one inserted.
    ///
    /// # Errors
    /// A ratio that no table can keep.
    pub fn table(&self) -> Result<TableConfig> {
        let rules = ReplayTable {
            name: TABLE,
            batch_size: self.batch_size,
            samples_per_insert: self.samples_per_insert,
            min_size: self.min_replay_size.max(self.batch_size),
            max_size: self.max_replay_size,
            burst: self.n_step,
        };
        let sampler = SelectorKind::Prioritized { exponent: self.priority_exponent };
        Ok(rules.config()?.sampler(sampler))
    }
}

/// # Errors
/// A setting that does not hold.
pub(crate) fn check(
    name: &'static str,
    value: impl std::fmt::Display,
    holds: bool,
    expected: &'static str,
) -> Result<()> {
    if holds { Ok(()) } else { Err(RlError::setting(name, value, expected)) }
}
