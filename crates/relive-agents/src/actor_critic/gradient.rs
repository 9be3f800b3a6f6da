//! Gradients that are computed where the rollouts are made, and applied in one place.

use std::time::Instant;

use relive_env::State;
use relive_flow::{Async, Flow};
use relive_rl::plan::{Batch, Crew, Learn, Progress};
use relive_rl::processes::{Layouts, Message};
use relive_rl::run::Seen;
use relive_rl::{Acted, Learner, Learnt, Part, Result, RlError, Saveable, Weights};

use super::minibatch::Told;
use super::{ActorCriticLearner, Settings};

/// The gradient of a rollout.
#[derive(Debug, Default)]
pub(crate) struct Gradient {
    pub(super) numbers: Vec<f32>,
    pub(super) loss: f32,
    /// Steps that it was made of.
    pub(super) cells: u64,
    pub(super) told: Told,
    pub(super) acted: Vec<Acted>,
}

impl Batch for Gradient {
    fn take_acted(&mut self) -> Vec<Acted> {
        std::mem::take(&mut self.acted)
    }

    fn seen(&self) -> Option<Seen<'_>> {
        None
    }
}

impl Message for Gradient {
    fn empty(_: &Layouts) -> Result<Gradient> {
        Ok(Gradient::default())
    }

    fn visit(&mut self, state: &mut State<'_>) -> Result<()> {
        state.numbers(&mut self.numbers);
        state.field(&mut self.loss);
        state.field(&mut self.cells);
        self.told.visit(state);
        self.acted.visit(state)
    }
}

/// Applies gradients as they come.
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

/// Gradients of all workers, each applied when it comes: no worker waits for another.
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
