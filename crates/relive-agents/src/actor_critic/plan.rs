//! The two plans: learning from the rollouts of all workers together, and learning from each worker's gradients as they
//! arrive.

use std::time::Instant;

use relive_flow::{Async, Flow};
use relive_rl::plan::{Crew, Learn, Progress};
use relive_rl::{Acted, Learner, Learnt, Part, Result, RlError, Saveable, Weights};

use super::gradient::Gradient;
use super::learner::ActorCriticLearner;
use super::settings::Settings;

/// Returns the synchronous plan, which learns from the rollouts of all workers side by side.
pub(crate) fn plan(settings: &Settings, crew: &Crew) -> Result<Flow<Progress>> {
    let learner = crew.learner(ActorCriticLearner::new(settings, crew)?)?;
    Ok(crew.rollouts(settings.num_steps)?.sync()?.learn(learner))
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
}

impl Saveable for Applied {
    fn save(&mut self) -> Vec<u8> {
        self.0.save()
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        self.0.restore(state)
    }
}

/// Returns the asynchronous plan, which applies the gradients of all workers as they arrive. No worker waits for
/// another worker.
pub(crate) fn asynchronous(settings: &Settings, crew: &Crew) -> Result<Flow<Progress>> {
    let learner = ActorCriticLearner::new(settings, crew)?;
    let differentiating = learner.clone();
    let gradients = crew.rollouts(settings.num_steps)?.on_each(move |rollouts, _| {
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
