//! What makes an agent.

use std::sync::Arc;

use relive_client::blocking::Client;
use relive_env::EnvironmentSpec;
use relive_nn::{Key, Params};
use relive_table::TableConfig;

use crate::variables::VariableSource;
use crate::{Actor, Learner, Result};

/// How the parts of an agent are made. [`experiment`](crate::experiment) puts them together: in one thread, in several, or in several
/// processes.
pub trait Agent: Sync {
    /// Its name, in files and messages.
    fn name(&self) -> &'static str;

    /// Whether its settings are within their ranges.
    ///
    /// # Errors
    /// The first that is not.
    fn validate(&self) -> Result<()>;

    /// Its settings by name: a run is resumed only with the same. None unless it says so.
    fn settings(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// How much it learns from each step in the environment.
    fn pace(&self) -> Pace;

    /// Its replay tables, whose rate limiters keep actors and learner in step. Where one thread acts and learns in turn, it needs no limiter
    /// and counts by [`pace`](Self::pace).
    ///
    /// # Errors
    /// A ratio that no table can keep.
    fn tables(&self) -> Result<Vec<TableConfig>>;

    /// Parameters to begin with.
    ///
    /// # Errors
    /// The environment is not one that the agent can act in.
    fn init(&self, spec: &EnvironmentSpec, key: Key) -> Result<Params>;

    /// A learner that reads from these tables, `prefetch` batches ahead.
    ///
    /// # Errors
    /// The environment is not one that the agent can act in; the tables cannot be read.
    fn learner(&self, place: &Place<'_>, prefetch: usize) -> Result<Box<dyn Learner>>;

    /// An actor with parameters of `variables`.
    ///
    /// # Errors
    /// The environment is not one that the agent can act in; the tables cannot be written; there are no parameters.
    fn actor(
        &self,
        place: &Place<'_>,
        purpose: Purpose,
        variables: Arc<dyn VariableSource>,
    ) -> Result<Box<dyn Actor>>;
}

/// What an actor is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// It explores, and writes what it sees.
    Training,
    /// It shows what was learned: it neither explores nor writes.
    Evaluation,
}

/// Where a part of an agent is.
pub struct Place<'a> {
    /// The environment's spec.
    pub spec: &'a EnvironmentSpec,
    /// The way to the tables.
    pub client: &'a Client,
    /// Everything random in the part follows from it.
    pub key: Key,
}

/// How much is learned for each step in the environment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Items of a batch.
    pub batch_size: usize,
    /// How often each step is learned from, on average.
    pub samples_per_insert: f64,
    /// Steps before learning begins.
    pub min_observations: u64,
}
