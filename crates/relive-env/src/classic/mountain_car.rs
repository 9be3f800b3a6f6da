//! MountainCar-v0.

use relive_tensor::DType;

use super::answer::{answer, write};
use crate::random::Generator;
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
/// The maximum number of steps in an episode of MountainCar-v0.
const MAX_STEPS: u32 = 200;

/// An underpowered car in a valley, pushed left (0), not at all (1) or right (2): MountainCar-v0 (Moore, 1990).
///
/// Observations are position and velocity, `[2]`. Each step earns -1. An episode ends on the hill at 0.5; it is
/// truncated after 200 steps.
pub type MountainCar = Native<MountainCarTask>;

/// The task of [`MountainCar`].
#[derive(Clone, Debug)]
pub struct MountainCarTask {
    stream: Generator,
    position: f64,
    velocity: f64,
    steps: u32,
}

impl MountainCar {
    /// Creates a task that starts like Gymnasium's environment after `reset(seed=seed)`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let stream = Generator::new(seed);
        Self::from(MountainCarTask { stream, position: 0.0, velocity: 0.0, steps: 0 })
    }
}

impl Task for MountainCarTask {
    type Action<'a> = u32;

    #[expect(clippy::cast_possible_truncation, reason = "bounds of float32")]
    fn observations(&self) -> ArraySpec {
        let float = |value: f64| f64::from(value as f32);
        let (low, high) = ([MIN_POSITION, -MAX_SPEED], [MAX_POSITION, MAX_SPEED]);
        ArraySpec::new("observation", DType::Float32, [2])
            .bounded_each(low.map(float).to_vec(), high.map(float).to_vec())
    }

    fn actions(&self) -> ArraySpec {
        ArraySpec::discrete("action", 3)
    }

    #[inline]
    fn begin(&mut self, observation: &mut [f32]) {
        self.position = self.stream.uniform(-0.6, -0.4);
        self.velocity = 0.0;
        self.steps = 0;
        write(observation, [self.position, self.velocity]);
    }

    #[inline]
    fn act(&mut self, action: u32, observation: &mut [f32]) -> TimeStep {
        let push = (f64::from(action) - 1.0) * FORCE + (3.0 * self.position).cos() * -GRAVITY;
        self.velocity = (self.velocity + push).clamp(-MAX_SPEED, MAX_SPEED);
        self.position = (self.position + self.velocity).clamp(MIN_POSITION, MAX_POSITION);
        if self.position == MIN_POSITION && self.velocity < 0.0 {
            self.velocity = 0.0;
        }
        self.steps += 1;
        write(observation, [self.position, self.velocity]);
        answer(-1.0, self.position >= GOAL && self.velocity >= 0.0, self.steps == MAX_STEPS)
    }

    fn state(&mut self, state: &mut State<'_>) {
        self.stream.state(state);
        state.field(&mut self.position);
        state.field(&mut self.velocity);
        state.field(&mut self.steps);
    }
}
