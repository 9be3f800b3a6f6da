//! A bandit with eleven arms.

use relive_tensor::DType;

use super::Totals;
use crate::random::RandomState;
use crate::spec::ArraySpec;
use crate::state::State;
use crate::task::{Native, Task};
use crate::timestep::TimeStep;

const ARMS: u32 = 11;

/// Eleven arms that pay 0, 0.1, …, 1. An arm always pays the same amount; the seed determines the amount of each arm.
/// An episode has one step.
///
/// Observations are a constant 1, `[1, 1]`.
pub type Bandit = Native<BanditTask>;

/// The task of [`Bandit`].
#[derive(Clone, Debug)]
pub struct BanditTask {
    rewards: Vec<f64>,
    total_regret: f64,
}

impl Bandit {
    /// Creates the arms, in the order that the seed determines.
    #[must_use]
    pub fn new(mapping_seed: u32) -> Self {
        let order = RandomState::new(mapping_seed).permutation(ARMS as usize);
        let paid: Vec<f64> = (0..ARMS).map(|arm| f64::from(arm) * (1.0 / f64::from(ARMS - 1))).collect();
        let rewards = order.into_iter().map(|place| paid[place]).collect();
        Self::from(BanditTask { rewards, total_regret: 0.0 })
    }
}

impl Task for BanditTask {
    type Action<'a> = u32;

    fn observations(&self) -> ArraySpec {
        ArraySpec::new("observation", DType::Float32, [1, 1])
    }

    fn actions(&self) -> ArraySpec {
        ArraySpec::discrete("action", ARMS)
    }

    fn begin(&mut self, observation: &mut [f32]) {
        observation.fill(1.0);
    }

    fn act(&mut self, action: u32, observation: &mut [f32]) -> TimeStep {
        let reward = self.rewards.get(action as usize).copied().unwrap_or(0.0);
        self.total_regret += 1.0 - reward;
        observation.fill(1.0);
        TimeStep::termination(reward)
    }

    fn state(&mut self, state: &mut State<'_>) {
        self.rewards.iter().for_each(|reward| state.constant(*reward));
        state.field(&mut self.total_regret);
    }
}

impl Totals for BanditTask {
    fn totals(&self) -> Vec<(&'static str, f64)> {
        vec![("total_regret", self.total_regret)]
    }
}
