//! Rewards at different delays.

use relive_tensor::DType;

use super::Totals;
use crate::spec::ArraySpec;
use crate::state::State;
use crate::task::{Native, Task};
use crate::timestep::TimeStep;

/// The number of steps after which each chain pays.
const PAID_AFTER: [u32; 5] = [1, 3, 10, 30, 100];
const STEPS: u32 = 100;
const BONUS: f64 = 0.1;

/// The first action chooses one of five chains, which pays 1 after 1, 3, 10, 30 or 100 steps; one of the chains pays
/// 1.1.
///
/// Observations are the chosen chain (-1 before the first action) and time / 100, `[1, 2]`. An episode has 100 steps.
pub type DiscountingChain = Native<DiscountingChainTask>;

/// The task of [`DiscountingChain`].
#[derive(Clone, Debug)]
pub struct DiscountingChainTask {
    bonus: u32,
    chain: Option<u32>,
    steps: u32,
}

impl DiscountingChain {
    /// The chain with the bonus has the number `mapping_seed` modulo 5.
    #[must_use]
    pub fn new(mapping_seed: u32) -> Self {
        Self::from(DiscountingChainTask { bonus: mapping_seed % 5, chain: None, steps: 0 })
    }
}

impl DiscountingChainTask {
    #[expect(clippy::cast_possible_truncation, reason = "observations are float32")]
    fn observe(&self, observation: &mut [f32]) {
        let chain = self.chain.map_or(-1.0, f64::from);
        for (cell, value) in observation.iter_mut().zip([chain, f64::from(self.steps) / f64::from(STEPS)]) {
            *cell = value as f32;
        }
    }
}

impl Task for DiscountingChainTask {
    type Action<'a> = u32;

    fn observations(&self) -> ArraySpec {
        ArraySpec::new("observation", DType::Float32, [1, 2])
    }

    fn actions(&self) -> ArraySpec {
        ArraySpec::discrete("action", 5)
    }

    fn begin(&mut self, observation: &mut [f32]) {
        (self.chain, self.steps) = (None, 0);
        self.observe(observation);
    }

    fn act(&mut self, action: u32, observation: &mut [f32]) -> TimeStep {
        let chain = *self.chain.get_or_insert(action);
        self.steps += 1;
        self.observe(observation);
        let pays = PAID_AFTER.get(chain as usize) == Some(&self.steps);
        let reward = match (pays, chain == self.bonus) {
            (true, true) => 1.0 + BONUS,
            (true, false) => 1.0,
            (false, _) => 0.0,
        };
        if self.steps == STEPS { TimeStep::termination(reward) } else { TimeStep::transition(reward) }
    }

    fn state(&mut self, state: &mut State<'_>) {
        state.constant(self.bonus);
        let (mut chosen, mut chain) = (self.chain.is_some(), self.chain.unwrap_or(0));
        state.field(&mut chosen);
        state.field(&mut chain);
        self.chain = chosen.then_some(chain);
        state.field(&mut self.steps);
    }
}

impl Totals for DiscountingChainTask {
    fn totals(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}
