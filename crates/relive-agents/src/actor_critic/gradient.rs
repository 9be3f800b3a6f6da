//! A gradient on its way from the worker that computed it to the learner that applies it.

use relive_env::State;
use relive_rl::plan::Batch;
use relive_rl::processes::{Layouts, Message};
use relive_rl::run::LearnerInput;
use relive_rl::{Acted, Result};

use super::minibatch::MetricSums;

/// The gradient of a rollout.
#[derive(Debug, Default)]
pub(crate) struct Gradient {
    pub(super) numbers: Vec<f32>,
    pub(super) loss: f32,
    /// The number of steps from which the gradient was computed.
    pub(super) cells: u64,
    pub(super) sums: MetricSums,
    pub(super) acted: Vec<Acted>,
}

impl Batch for Gradient {
    fn take_acted(&mut self) -> Vec<Acted> {
        std::mem::take(&mut self.acted)
    }

    fn learner_input(&self) -> Option<LearnerInput<'_>> {
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
        self.sums.visit(state);
        self.acted.visit(state)
    }
}
