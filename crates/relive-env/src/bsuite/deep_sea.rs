//! The deep sea: a diver looks for a chest at the bottom.

use relive_tensor::DType;

use super::Totals;
use super::size::checked;
use crate::error::EnvError;
use crate::random::RandomState;
use crate::spec::ArraySpec;
use crate::state::State;
use crate::task::{Native, Task};
use crate::timestep::TimeStep;

/// The cost of a move to the right, multiplied by the size.
const MOVE_COST: f64 = 0.01;

/// A grid in which each step moves down one row, to the left or to the right. The meaning of the two actions is drawn
/// for every cell. Moving right costs 0.01 / size; moving right in the last column of the last row earns 1.
///
/// Observations are the grid, `[size, size]`, with 1 at the diver's position, and all 0 at the end. An episode has one
/// step per row. In the stochastic variant, a move to the right fails with probability 1 / `size`, and the rewards at
/// both ends of the last row are noisy.
pub type DeepSea = Native<DeepSeaTask>;

/// The task of [`DeepSea`].
#[derive(Clone, Debug)]
pub struct DeepSeaTask {
    size: u32,
    deterministic: bool,
    stream: RandomState,
    /// The action that moves right, cell by cell.
    right: Vec<u32>,
    row: u32,
    column: u32,
    bad_episode: bool,
    total_bad_episodes: f64,
    denoised_return: f64,
}

impl DeepSea {
    /// Creates the deterministic variant. `mapping_seed` determines the action that moves right in each cell.
    ///
    /// # Errors
    /// [`EnvError::Setting`] if the size is 0 or exceeds [`MAX_BSUITE_SIZE`](crate::limits::MAX_BSUITE_SIZE).
    pub fn new(size: u32, mapping_seed: u32, seed: u32) -> Result<Self, EnvError> {
        Ok(Self::from(DeepSeaTask::with_kind(size, true, mapping_seed, seed)?))
    }

    /// Returns the stochastic variant, with noise from a seed's stream.
    ///
    /// # Errors
    /// Same as [`DeepSea::new`].
    pub fn stochastic(size: u32, mapping_seed: u32, seed: u32) -> Result<Self, EnvError> {
        Ok(Self::from(DeepSeaTask::with_kind(size, false, mapping_seed, seed)?))
    }
}

impl DeepSeaTask {
    fn with_kind(size: u32, deterministic: bool, mapping_seed: u32, seed: u32) -> Result<Self, EnvError> {
        let size = checked("size", size, 1)?;
        let mut mapping = RandomState::new(mapping_seed);
        Ok(Self {
            size,
            deterministic,
            stream: RandomState::new(seed),
            right: (0..size * size).map(|_| u32::from(mapping.bernoulli(0.5))).collect(),
            row: 0,
            column: 0,
            bad_episode: false,
            total_bad_episodes: 0.0,
            denoised_return: 0.0,
        })
    }

    /// Returns the action that moves right at the diver's position.
    #[must_use]
    pub fn action_right(&self) -> Option<u32> {
        self.right.get((self.row * self.size + self.column) as usize).copied()
    }

    fn observe(&self, observation: &mut [f32]) {
        observation.fill(0.0);
        if let Some(cell) = observation.get_mut((self.row * self.size + self.column) as usize) {
            *cell = 1.0;
        }
    }

    /// The noise is drawn before the move, and the outcome of the move is drawn even if it cannot fail.
    fn move_down(&mut self, right: bool) -> f64 {
        let (mut reward, last) = (0.0, self.size - 1);
        if right && self.column == last {
            reward += 1.0;
            self.denoised_return += 1.0;
        }
        if !self.deterministic && self.row == last && (self.column == 0 || self.column == last) {
            reward += self.stream.standard_normal();
        }
        if right {
            let drawn = self.stream.random_sample();
            if drawn > 1.0 / f64::from(self.size) || self.deterministic {
                self.column = (self.column + 1).min(last);
            }
            reward -= MOVE_COST / f64::from(self.size);
        } else {
            self.bad_episode |= self.row == self.column;
            self.column = self.column.saturating_sub(1);
        }
        self.row += 1;
        reward
    }
}

impl Task for DeepSeaTask {
    type Action<'a> = u32;

    fn observations(&self) -> ArraySpec {
        ArraySpec::new("observation", DType::Float32, [self.size, self.size])
    }

    fn actions(&self) -> ArraySpec {
        ArraySpec::discrete("action", 2)
    }

    fn begin(&mut self, observation: &mut [f32]) {
        (self.row, self.column, self.bad_episode) = (0, 0, false);
        self.observe(observation);
    }

    fn act(&mut self, action: u32, observation: &mut [f32]) -> TimeStep {
        let reward = self.move_down(self.action_right() == Some(action));
        self.observe(observation);
        if self.row < self.size {
            return TimeStep::transition(reward);
        }
        self.total_bad_episodes += f64::from(u8::from(self.bad_episode));
        TimeStep::termination(reward)
    }

    fn state(&mut self, state: &mut State<'_>) {
        state.constant(self.size);
        state.constant(self.deterministic);
        self.right.iter().for_each(|right| state.constant(*right));
        self.stream.state(state);
        state.field(&mut self.row);
        state.field(&mut self.column);
        state.field(&mut self.bad_episode);
        state.field(&mut self.total_bad_episodes);
        state.field(&mut self.denoised_return);
    }

    fn demonstrated(&self) -> Option<i32> {
        self.action_right().and_then(|action| i32::try_from(action).ok())
    }
}

impl Totals for DeepSeaTask {
    fn totals(&self) -> Vec<(&'static str, f64)> {
        vec![("total_bad_episodes", self.total_bad_episodes), ("denoised_return", self.denoised_return)]
    }
}
