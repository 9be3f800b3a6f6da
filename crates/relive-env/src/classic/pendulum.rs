//! Pendulum-v1.

use std::f64::consts::PI;

use relive_tensor::DType;

use super::answer::{answer, write};
use crate::number::{remainder, square, square_single};
use crate::random::Generator;
use crate::spec::ArraySpec;
use crate::state::State;
use crate::task::{Native, Task};
use crate::timestep::TimeStep;

const MAX_SPEED: f64 = 8.0;
const MAX_TORQUE: f32 = 2.0;
const STEP_SECONDS: f64 = 0.05;
/// The effect of gravity of 10 on a rod of length and mass 1: 3g / 2l.
const PULL: f64 = 15.0;
/// The number of steps in an episode of Pendulum-v1.
const MAX_STEPS: u32 = 200;

/// A pendulum that should stand upright, turned by a torque in `[-2, 2]`: Pendulum-v1.
///
/// Observations are the cosine and the sine of the angle, and the angular velocity, `[3]`. The cost of a step is
/// `angle² + 0.1·velocity² + 0.001·torque²`, with the state before the step and the angle measured from upright. Every
/// episode is truncated after 200 steps.
pub type Pendulum = Native<PendulumTask>;

/// The task of [`Pendulum`].
#[derive(Clone, Debug)]
pub struct PendulumTask {
    stream: Generator,
    angle: f64,
    velocity: f64,
    steps: u32,
}

impl Pendulum {
    /// Creates a task that starts like Gymnasium's environment after `reset(seed=seed)`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::from(PendulumTask { stream: Generator::new(seed), angle: 0.0, velocity: 0.0, steps: 0 })
    }
}

impl PendulumTask {
    #[inline]
    fn observe(&self, observation: &mut [f32]) {
        write(observation, [self.angle.cos(), self.angle.sin(), self.velocity]);
    }
}

impl Task for PendulumTask {
    type Action<'a> = &'a [f32];

    fn observations(&self) -> ArraySpec {
        let high = vec![1.0, 1.0, MAX_SPEED];
        let low = high.iter().map(|bound| -bound).collect();
        ArraySpec::new("observation", DType::Float32, [3]).bounded_each(low, high)
    }

    fn actions(&self) -> ArraySpec {
        let bound = f64::from(MAX_TORQUE);
        ArraySpec::new("action", DType::Float32, [1]).bounded(-bound, bound)
    }

    fn begin(&mut self, observation: &mut [f32]) {
        self.angle = self.stream.uniform(-PI, PI);
        self.velocity = self.stream.uniform(-1.0, 1.0);
        self.steps = 0;
        self.observe(observation);
    }

    fn act(&mut self, action: &[f32], observation: &mut [f32]) -> TimeStep {
        let torque = action.first().copied().unwrap_or(0.0).clamp(-MAX_TORQUE, MAX_TORQUE);
        let lean = remainder(self.angle + PI, 2.0 * PI) - PI;
        let effort = f64::from(0.001_f32 * square_single(torque));
        let cost = square(lean) + 0.1 * square(self.velocity) + effort;
        let acceleration = PULL * self.angle.sin() + f64::from(3.0_f32 * torque);
        self.velocity = (self.velocity + acceleration * STEP_SECONDS).clamp(-MAX_SPEED, MAX_SPEED);
        self.angle += self.velocity * STEP_SECONDS;
        self.steps += 1;
        self.observe(observation);
        answer(-cost, false, self.steps == MAX_STEPS)
    }

    fn state(&mut self, state: &mut State<'_>) {
        self.stream.state(state);
        state.field(&mut self.angle);
        state.field(&mut self.velocity);
        state.field(&mut self.steps);
    }
}
