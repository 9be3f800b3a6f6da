//! The contract of agents.

use std::sync::Arc;

use relive_flow::Flow;
use relive_table::TableConfig;
use serde::Serialize;

use super::{Crew, Progress};
use crate::contracts::MakePolicy;
use crate::{Policy, PolicyContext, Result};

/// An agent: its settings, its policy for acting, and its plan for learning.
pub trait Agent: Send + Sync {
    /// Returns the agent's name, for files and messages.
    fn name(&self) -> &str;

    /// Returns all settings by name; a run can only be resumed with equal settings.
    fn settings(&self) -> Vec<(String, String)>;

    /// Checks that the settings are within their ranges.
    ///
    /// # Errors
    /// The first setting that is out of range.
    fn validate(&self) -> Result<()>;

    /// Returns the total number of environments for a number of workers; one per worker by default.
    fn environments(&self, workers: usize) -> usize {
        workers
    }

    /// Returns the agent's replay tables. Their rate limiters keep acting and learning in step. None by default.
    ///
    /// # Errors
    /// A table with an impossible configuration.
    fn tables(&self) -> Result<Vec<TableConfig>> {
        Ok(Vec::new())
    }

    /// Returns the number of an environment's steps between two items in the agent's tables, within an episode. A run
    /// that is too short for its first learner step is then reported at its start. Unknown by default.
    fn steps_per_item(&self) -> Option<usize> {
        None
    }

    /// Checks, when a run is saved, that all parts of the agent returned their state. On an error, nothing is saved and
    /// the run ends.
    ///
    /// # Errors
    /// The reason why a part did not return its state. By default, there is no error.
    fn check_saved(&self) -> Result<()> {
        Ok(())
    }

    /// Creates a policy for a worker.
    ///
    /// # Errors
    /// [`Unsuited`](crate::RlError::Unsuited): the agent cannot act in the environment.
    fn policy(&self, context: &PolicyContext<'_>) -> Result<Box<dyn Policy>>;

    /// Returns the algorithm, as a dataflow.
    ///
    /// # Errors
    /// The errors of [`policy`](Self::policy), or the saved state does not belong to the agent.
    fn plan(&self, crew: &Crew) -> Result<Flow<Progress>>;
}

/// Creates an agent from its name and its settings, a JSON object.
pub type MakeAgent<'a> = dyn Fn(&str, &str) -> Result<Arc<dyn Agent>> + 'a;

/// Returns the part of an agent that a crew uses.
pub(crate) fn policies_of(agent: &Arc<dyn Agent>) -> Arc<dyn MakePolicy> {
    Arc::new(Arc::clone(agent))
}

impl MakePolicy for Arc<dyn Agent> {
    fn environments(&self, workers: usize) -> usize {
        self.as_ref().environments(workers)
    }

    fn policy(&self, context: &PolicyContext<'_>) -> Result<Box<dyn Policy>> {
        self.as_ref().policy(context)
    }
}

/// Returns the fields of serializable settings, by name, as returned by [`Agent::settings`].
pub fn settings_of(settings: &impl Serialize) -> Vec<(String, String)> {
    // In JSON text, a float32 has no more digits than necessary.
    let text = serde_json::to_string(settings).unwrap_or_default();
    match serde_json::from_str(&text) {
        Ok(serde_json::Value::Object(fields)) => {
            fields.into_iter().map(|(name, value)| (name, value.to_string())).collect()
        }
        _ => Vec::new(),
    }
}
