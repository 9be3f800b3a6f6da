//! MountainCarContinuous-v0.

use relive_tensor::DType;

use super::answer::{answer, write};
use crate::number::square;
use crate::random::Generator;
use crate::spec::ArraySpec;
use crate::state::State;
use crate::task::{Native, Task};
use crate::timestep::TimeStep;

const MIN_POSITION: f64 = -1.2;
const MAX_POSITION: f64 = 0.6;
const MAX_SPEED: f64 = 0.07;
const GOAL: f64 = 0.45;
const POWER: f64 = 0.0015;
const GRAVITY: f64 = 0.0025;
/// The maximum number of steps in an episode of MountainCarContinuous-v0.
const MAX_STEPS: u32 = 999;

/// An underpowered car in a valley, pushed by a force in `[-1, 1]`: MountainCarContinuous-v0.
///
/// Observations are position and velocity, `[2]`. A step costs a tenth of the square of the unclipped action. Reaching
/// the hill at 0.45 earns 100 and ends the episode, which is truncated after 999 steps.
pub type MountainCarContinuous = Native<MountainCarContinuousTask>;

/// The task of [`MountainCarContinuous`].
#[derive(Clone, Debug)]
pub struct MountainCarContinuousTask {
    stream: Generator,
    position: f64,
    velocity: f64,
    steps: u32,
}

impl MountainCarContinuous {
    /// Creates a task that starts like Gymnasium's environment after `reset(seed=seed)`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let stream = Generator::new(seed);
        Self::from(MountainCarContinuousTask { stream, position: 0.0, velocity: 0.0, steps: 0 })
    }
}

/// The rounding of numbers: Gymnasium's state is float64 until the first step is complete, and float32 from then on.
#[derive(Clone, Copy)]
enum Precision {
    Double,
    Single,
}

impl Precision {
    #[inline]
    fn round(self, value: f64) -> f64 {
        match self {
            Self::Double => value,
            Self::Single => single(value),
        }
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "rounding is the purpose")]
fn single(value: f64) -> f64 {
    f64::from(value as f32)
}

impl MountainCarContinuousTask {
    /// Returns the change of the velocity. A force within its bounds is a float32, as are the numbers computed from it.
    fn push(&self, force: f32, precision: Precision) -> f64 {
        let angle = precision.round(3.0 * self.position);
        let gravity = GRAVITY * angle.cos();
        if force.abs() <= 1.0 {
            single(single(f64::from(force) * single(POWER)) - single(gravity))
        } else {
            precision.round(f64::from(force.signum()) * POWER - gravity)
        }
    }

    fn advance(&mut self, force: f32, precision: Precision) -> bool {
        let limit = |value: f64| precision.round(value);
        let velocity = precision.round(self.velocity + self.push(force, precision));
        let velocity = velocity.clamp(limit(-MAX_SPEED), limit(MAX_SPEED));
        let position = precision.round(self.position + velocity);
        self.position = position.clamp(limit(MIN_POSITION), limit(MAX_POSITION));
        let at_wall = self.position == limit(MIN_POSITION) && velocity < 0.0;
        self.velocity = if at_wall { 0.0 } else { velocity };
        let goal = self.position >= limit(GOAL) && self.velocity >= 0.0;
        (self.position, self.velocity) = (single(self.position), single(self.velocity));
        goal
    }
}

impl Task for MountainCarContinuousTask {
    type Action<'a> = &'a [f32];

    fn observations(&self) -> ArraySpec {
        let (low, high) = ([MIN_POSITION, -MAX_SPEED], [MAX_POSITION, MAX_SPEED]);
        ArraySpec::new("observation", DType::Float32, [2])
            .bounded_each(low.map(single).to_vec(), high.map(single).to_vec())
    }

    fn actions(&self) -> ArraySpec {
        ArraySpec::new("action", DType::Float32, [1]).bounded(-1.0, 1.0)
    }

    fn begin(&mut self, observation: &mut [f32]) {
        self.position = self.stream.uniform(-0.6, -0.4);
        self.velocity = 0.0;
        self.steps = 0;
        write(observation, [self.position, self.velocity]);
    }

    fn act(&mut self, action: &[f32], observation: &mut [f32]) -> TimeStep {
        let force = action.first().copied().unwrap_or(0.0);
        let precision = if self.steps == 0 { Precision::Double } else { Precision::Single };
        let goal = self.advance(force, precision);
        self.steps += 1;
        write(observation, [self.position, self.velocity]);
        let earned = if goal { 100.0 } else { 0.0 };
        let reward = earned - square(f64::from(force)) * 0.1;
        answer(reward, goal, self.steps == MAX_STEPS)
    }

    fn state(&mut self, state: &mut State<'_>) {
        self.stream.state(state);
        state.field(&mut self.position);
        state.field(&mut self.velocity);
        state.field(&mut self.steps);
    }
}
