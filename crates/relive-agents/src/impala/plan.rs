//! The policy and the plan of agents that learn from fragments as they arrive.

use relive_flow::{Async, Flow, Resubmit};
use relive_rl::plan::{Crew, Learn, Progress};
use relive_rl::{Policy, PolicyContext, Result, RlError, Rollout};

use super::learner::VTraceLearner;
use super::policy::VTracePolicy;
use super::settings::Settings;

impl Settings {
    /// Returns the number of environments of all workers together, at least one for each worker.
    pub(super) fn environments(&self, workers: usize) -> usize {
        workers.max(self.num_envs)
    }

    /// Returns the policy of a worker.
    pub(super) fn policy(&self, context: &PolicyContext<'_>) -> Result<Box<dyn Policy>> {
        Ok(Box::new(VTracePolicy::new(self, context)?))
    }

    /// Returns the plan, which batches the fragments of all workers as they arrive and learns from each batch.
    pub(super) fn plan(&self, crew: &Crew) -> Result<Flow<Progress>> {
        let rows = (crew.environments() / crew.workers().max(1)).max(1);
        let fragments = self.batch_size.div_ceil(rows);
        expect_steps(self, crew, fragments.saturating_mul(rows))?;
        let learner = crew.learner(VTraceLearner::new(self, crew)?)?;
        // A single thread that alternates between acting and learning acts with the newest weights; workers in other
        // threads do not wait for newer weights.
        let resubmit = if crew.acts_in_turn() { Resubmit::After } else { Resubmit::Before };
        let made = crew.rollouts(self.sequence_length)?.gather_async(Async { depth: 1, resubmit })?;
        let batches = made.batch(fragments);
        Ok(batches.try_for_each(Rollout::side_by_side).named("side by side").learn(learner))
    }
}

/// Checks that the run is long enough for one batch of fragments in the given number of environments, and for one
/// fragment of each worker. A run ends with the batch that reaches the run's number of steps; by then, each worker has
/// produced a fragment.
fn expect_steps(settings: &Settings, crew: &Crew, rows: usize) -> Result<()> {
    let (length, workers, steps) = (settings.sequence_length, crew.workers(), crew.env_steps());
    let of = |rows: usize| u64::try_from(rows.saturating_mul(length)).unwrap_or(u64::MAX);
    if of(rows) > steps {
        let expected = format!(
            "at most the steps of the run, {steps}: a batch has {} fragments (batch_size {}) of {length} steps \
             (sequence_length); lower these, or make the run longer",
            rows, settings.batch_size
        );
        return Err(RlError::setting("the number of steps of a batch", of(rows), expected));
    }
    let of_all = of(crew.environments());
    if workers > 1 && of_all > steps {
        let expected = format!(
            "fewer: one fragment of each is {of_all} steps in {} environments, but the run has {steps}; lower \
             sequence_length or num_envs, or make the run longer",
            crew.environments()
        );
        return Err(RlError::setting("actors", workers, expected));
    }
    Ok(())
}
