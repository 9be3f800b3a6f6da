//! From settings to a run.

use std::sync::Arc;

use relive_env::EnvironmentSpec;
use relive_nn::Params;

use super::options::{MakeEnvironment, RunOptions};
use super::report::Report;
use super::summary::Summary;
use super::{local, threads};
use crate::{Agent, Result};

/// What a run has come to.
#[derive(Debug)]
pub struct Trained {
    /// In figures.
    pub summary: Summary,
    /// What was learned.
    pub params: Arc<Params>,
    /// What the environment takes and gives.
    pub spec: EnvironmentSpec,
}

/// Trains an agent, and tells of it on the way.
///
/// Without actors of their own, one thread acts and learns in turn: one learner step for every `batch_size / samples_per_insert` steps in the
/// environment. Otherwise each actor is a thread, and the tables' rate limiters keep the learner in step with them.
///
/// # Errors
/// Settings out of range, an environment that the agent cannot act in, or the first error of an actor or the learner.
pub fn train(
    agent: &dyn Agent,
    options: &RunOptions,
    make_environment: &MakeEnvironment<'_>,
    on_report: &mut dyn FnMut(&Report),
) -> Result<Trained> {
    agent.validate()?;
    match options.actors {
        0 => local::run(agent, options, make_environment, on_report),
        _ => threads::run(agent, options, make_environment, on_report),
    }
}
