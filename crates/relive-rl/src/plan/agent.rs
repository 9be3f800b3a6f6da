//! What makes an agent.

use std::sync::Arc;

use relive_flow::Flow;
use relive_table::TableConfig;
use serde::Serialize;

use super::{Crew, Progress};
use crate::contracts::MakePolicy;
use crate::{Policy, Result, Seat};

/// Puts an agent together: its settings, the policy that acts, and the plan that makes it learn.
pub trait Agent: Send + Sync {
    /// Its name, in files and messages.
    fn name(&self) -> &str;

    /// All its settings by name: a run is resumed only with the same.
    fn settings(&self) -> Vec<(String, String)>;

    /// Whether its settings are within their ranges.
    ///
    /// # Errors
    /// The first that is not.
    fn validate(&self) -> Result<()>;

    /// How many environments it acts in, all workers together, where it has so many workers: one each, unless it says
    /// otherwise.
    fn environments(&self, workers: usize) -> usize {
        workers
    }

    /// Its replay tables, whose rate limiters keep acting and learning in step; none unless it says so.
    ///
    /// # Errors
    /// Rules that no table can keep.
    fn tables(&self) -> Result<Vec<TableConfig>> {
        Ok(Vec::new())
    }

    /// Whether all that belongs to it has told its state when the run is saved; otherwise nothing is saved, and the
    /// run ends.
    ///
    /// # Errors
    /// What went wrong; nothing unless it says so.
    fn check_saved(&self) -> Result<()> {
        Ok(())
    }

    /// A policy for a worker.
    ///
    /// # Errors
    /// [`Unsuited`](crate::RlError::Unsuited): the environment is not one that the agent can act in.
    fn policy(&self, seat: &Seat<'_>) -> Result<Box<dyn Policy>>;

    /// The algorithm, as a dataflow.
    ///
    /// # Errors
    /// As [`policy`](Self::policy); a saved state that is not the agent's.
    fn plan(&self, crew: &Crew) -> Result<Flow<Progress>>;
}

/// Makes an agent by its name and its settings, a JSON object.
pub type MakeAgent<'a> = dyn Fn(&str, &str) -> Result<Arc<dyn Agent>> + 'a;

/// What a crew needs of an agent.
pub(crate) fn policies_of(agent: &Arc<dyn Agent>) -> Arc<dyn MakePolicy> {
    Arc::new(Arc::clone(agent))
}

impl MakePolicy for Arc<dyn Agent> {
    fn environments(&self, workers: usize) -> usize {
        self.as_ref().environments(workers)
    }

    fn policy(&self, seat: &Seat<'_>) -> Result<Box<dyn Policy>> {
        self.as_ref().policy(seat)
    }
}

/// The fields of serialisable settings, by name: what [`Agent::settings`] gives.
pub fn settings_of(settings: &impl Serialize) -> Vec<(String, String)> {
    // By way of text, in which a float32 has no more digits than it needs.
    let text = serde_json::to_string(settings).unwrap_or_default();
    match serde_json::from_str(&text) {
        Ok(serde_json::Value::Object(fields)) => {
            fields.into_iter().map(|(name, value)| (name, value.to_string())).collect()
        }
        _ => Vec::new(),
    }
}
