//! An underpowered car on a hill.

use relive_tensor::DType;

use super::Totals;
use crate::random::RandomState;
use crate::spec::ArraySpec;
use crate::state::State;
use crate::task::{Native, Task};
use crate::timestep::TimeStep;

const MIN_POSITION: f64 = -1.2;
const MAX_POSITION: f64 = 0.6;
const MAX_SPEED: f64 = 0.07;
const GOAL: f64 = 0.5;
const FORCE: f64 = 0.001;
const GRAVITY: f64 = 0.0025;
const MAX_STEPS: u32 = 1000;

/// A car in a valley, pushed left (0), not at all (1) or right (2).
///
/// Observations are position, velocity and time / 1000, `[1, 3]`. Each step earns -1. The episode ends at 0.5 or after
/// 1000 steps, with discount 0 in both cases.
pub type MountainCar = Native<MountainCarTask>;

/// The task of [`MountainCar`].
#[derive(Clone, Debug)]
pub struct MountainCarTask {
    max_steps: u32,
    stream: RandomState,
    position: f64,
    velocity: f64,
    steps: u32,
    raw_return: f64,
}

impl MountainCar {
    /// Creates an environment that draws the starts of episodes from the seed's stream.
    #[must_use]
    pub fn new(seed: u32) -> Self {
        Self::with_max_steps(MAX_STEPS, seed)
    }

    /// Sets the length of episodes, at least 1. Observations contain the time as a fraction of this length.
    #[must_use]
    pub fn with_max_steps(max_steps: u32, seed: u32) -> Self {
        let stream = RandomState::new(seed);
        let max_steps = max_steps.max(1);
        let (position, velocity, raw_return) = (0.0, 0.0, 0.0);
        Self::from(MountainCarTask { max_steps, stream, position, velocity, steps: 0, raw_return })
    }
}

impl MountainCarTask {
    #[expect(clippy::cast_possible_truncation, reason = "observations are float32")]
    fn observe(&self, observation: &mut [f32]) {
        let values = [self.position, self.velocity, f64::from(self.steps) / f64::from(self.max_steps)];
        for (cell, value) in observation.iter_mut().zip(values) {
            *cell = value as f32;
        }
    }
}

impl Task for MountainCarTask {
    type Action<'a> = u32;

    fn observations(&self) -> ArraySpec {
        ArraySpec::new("observation", DType::Float32, [1, 3])
    }

    fn actions(&self) -> ArraySpec {
        ArraySpec::discrete("action", 3)
    }

    fn begin(&mut self, observation: &mut [f32]) {
        self.steps = 0;
        self.position = self.stream.uniform(-0.6, -0.4);
        self.velocity = 0.0;
        self.observe(observation);
    }

    fn act(&mut self, action: u32, observation: &mut [f32]) -> TimeStep {
        self.steps += 1;
        self.raw_return -= 1.0;
        let push = (f64::from(action) - 1.0) * FORCE + (3.0 * self.position).cos() * -GRAVITY;
        self.velocity = (self.velocity + push).clamp(-MAX_SPEED, MAX_SPEED);
        self.position = (self.position + self.velocity).clamp(MIN_POSITION, MAX_POSITION);
        if self.position == MIN_POSITION {
            self.velocity = self.velocity.max(0.0);
        }
        self.observe(observation);
        if self.position >= GOAL || self.steps >= self.max_steps {
            TimeStep::termination(-1.0)
        } else {
            TimeStep::transition(-1.0)
        }
    }

    fn state(&mut self, state: &mut State<'_>) {
        state.constant(self.max_steps);
        self.stream.state(state);
        state.field(&mut self.position);
        state.field(&mut self.velocity);
        state.field(&mut self.steps);
        state.field(&mut self.raw_return);
    }
}

impl Totals for MountainCarTask {
    fn totals(&self) -> Vec<(&'static str, f64)> {
        vec![("raw_return", self.raw_return)]
    }
}
