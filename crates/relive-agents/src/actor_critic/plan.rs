//! The policy, and the two plans: learning from the rollouts of all workers together, and learning from each worker's
//! gradients as they arrive.

use std::time::Instant;

use relive_flow::{Async, Flow};
use relive_rl::plan::{Crew, Learn, Progress};
use relive_rl::{Acted, Learner, Learnt, Part, Policy, PolicyContext, Result, RlError, Saveable, Weights};

use super::gradient::Gradient;
use super::learner::ActorCriticLearner;
use super::policy::ActorCriticPolicy;
use super::settings::Settings;

impl Settings {
    /// Returns the number of environments of all workers together.
    pub(crate) fn environments(&self, _workers: usize) -> usize {
        self.num_envs
    }

    /// Returns the policy of a worker.
    pub(crate) fn policy(&self, context: &PolicyContext<'_>) -> Result<Box<dyn Policy>> {
        Ok(Box::new(ActorCriticPolicy::new(self, context)?))
    }

    /// Returns the synchronous plan, which learns from the rollouts of all workers side by side.
    pub(crate) fn plan(&self, crew: &Crew) -> Result<Flow<Progress>> {
        let learner = crew.learner(ActorCriticLearner::new(self, crew)?)?;
        Ok(crew.rollouts(self.num_steps)?.sync()?.learn(learner))
    }

    /// Returns the asynchronous plan, which applies the gradients of all workers as they arrive. No worker waits for
    /// another worker.
    pub(crate) fn asynchronous_plan(&self, crew: &Crew) -> Result<Flow<Progress>> {
        let learner = ActorCriticLearner::new(self, crew)?;
        let differentiating = learner.clone();
        let gradients = crew.rollouts(self.num_steps)?.on_each(move |rollouts, _| {
            let mut learner = differentiating.clone();
            rollouts.try_for_each(move |rollout| {
                let since = Instant::now();
                let mut gradient = learner.gradient(rollout)?;
                Acted::note_time(&mut gradient.acted, Part::Learn, since);
                Ok::<_, RlError>(gradient)
            })
        });
        Ok(gradients.gather_async(Async::default())?.learn(crew.learner(Applied(learner))?))
    }
}

/// Applies gradients as they arrive.
struct Applied(ActorCriticLearner);

impl Learner for Applied {
    type Batch = Gradient;

    fn learn(&mut self, gradient: Gradient) -> Result<Learnt> {
        self.0.apply(gradient)
    }

    fn weights(&self) -> Result<Weights> {
        self.0.weights()
    }

    fn warm_start(&mut self, state: &[u8]) -> Result<()> {
        self.0.warm_start(state)
    }
}

impl Saveable for Applied {
    fn save(&mut self) -> Vec<u8> {
        self.0.save()
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        self.0.restore(state)
    }
}
