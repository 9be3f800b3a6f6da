//! The umbrella chain, in which an umbrella is taken or left.

use relive_tensor::DType;

use super::Totals;
use super::size::checked;
use crate::error::EnvError;
use crate::random::RandomState;
use crate::spec::ArraySpec;
use crate::state::State;
use crate::task::{Native, Task};
use crate::timestep::TimeStep;

/// The first action takes an umbrella (1) or leaves it (0), and the last step earns 1 if this choice was right,
/// otherwise -1. The rewards in between are ±1 at random.
///
/// Observations are whether an umbrella is needed, whether the agent has one, 1 - time / length, and distractors, 0 or
/// 1 at random, `[1, 3 + distractors]`.
pub type UmbrellaChain = Native<UmbrellaChainTask>;

/// The task of [`UmbrellaChain`].
#[derive(Clone, Debug)]
pub struct UmbrellaChainTask {
    length: u32,
    distractors: u32,
    stream: RandomState,
    needed: bool,
    taken: bool,
    steps: u32,
    total_regret: f64,
}

impl UmbrellaChain {
    /// Creates a chain with episodes of `chain_length` steps; all random numbers come from the seed's stream.
    ///
    /// # Errors
    /// [`EnvError::Setting`] if the length is 0, or anything exceeds
    /// [`MAX_BSUITE_SIZE`](crate::limits::MAX_BSUITE_SIZE).
    pub fn new(chain_length: u32, num_distractors: u32, seed: u32) -> Result<Self, EnvError> {
        let mut stream = RandomState::new(seed);
        // The original draws this number one more time than there are episodes.
        let needed = stream.bernoulli(0.5);
        Ok(Self::from(UmbrellaChainTask {
            length: checked("chain_length", chain_length, 1)?,
            distractors: checked("num_distractors", num_distractors, 0)?,
            stream,
            needed,
            taken: false,
            steps: 0,
            total_regret: 0.0,
        }))
    }
}

impl UmbrellaChainTask {
    #[expect(clippy::cast_possible_truncation, reason = "observations are float32")]
    fn observe(&mut self, observation: &mut [f32]) {
        let flag = |set: bool| if set { 1.0 } else { 0.0 };
        let left = 1.0 - f64::from(self.steps) / f64::from(self.length);
        let [needed, taken, time, distractors @ ..] = observation else { return };
        (*needed, *taken, *time) = (flag(self.needed), flag(self.taken), left as f32);
        distractors.iter_mut().for_each(|cell| *cell = flag(self.stream.bernoulli(0.5)));
    }
}

impl Task for UmbrellaChainTask {
    type Action<'a> = u32;

    fn observations(&self) -> ArraySpec {
        ArraySpec::new("observation", DType::Float32, [1, 3 + self.distractors])
    }

    fn actions(&self) -> ArraySpec {
        ArraySpec::discrete("action", 2)
    }

    fn begin(&mut self, observation: &mut [f32]) {
        self.steps = 0;
        self.needed = self.stream.bernoulli(0.5);
        self.taken = self.stream.bernoulli(0.5);
        self.observe(observation);
    }

    fn act(&mut self, action: u32, observation: &mut [f32]) -> TimeStep {
        self.steps += 1;
        if self.steps == 1 {
            self.taken = action == 1;
        }
        if self.steps < self.length {
            let reward = if self.stream.bernoulli(0.5) { 1.0 } else { -1.0 };
            self.observe(observation);
            return TimeStep::transition(reward);
        }
        let right = self.taken == self.needed;
        self.total_regret += if right { 0.0 } else { 2.0 };
        self.observe(observation);
        TimeStep::termination(if right { 1.0 } else { -1.0 })
    }

    fn state(&mut self, state: &mut State<'_>) {
        state.constant(self.length);
        state.constant(self.distractors);
        self.stream.state(state);
        state.field(&mut self.needed);
        state.field(&mut self.taken);
        state.field(&mut self.steps);
        state.field(&mut self.total_regret);
    }
}

impl Totals for UmbrellaChainTask {
    fn totals(&self) -> Vec<(&'static str, f64)> {
        vec![("total_regret", self.total_regret)]
    }
}
