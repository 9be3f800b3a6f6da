//! CartPole-v1.

use relive_tensor::DType;

use super::answer::{answer, write};
use crate::random::Generator;
use crate::spec::ArraySpec;
use crate::state::State;
use crate::task::{Native, Task};
use crate::timestep::TimeStep;

const GRAVITY: f64 = 9.8;
const POLE_MASS: f64 = 0.1;
const TOTAL_MASS: f64 = POLE_MASS + 1.0;
/// Half the length of the pole.
const LENGTH: f64 = 0.5;
const POLE_MOMENT: f64 = POLE_MASS * LENGTH;
const FORCE: f64 = 10.0;
const STEP_SECONDS: f64 = 0.02;
const MAX_POSITION: f64 = 2.4;
const MAX_ANGLE: f64 = 12.0 * 2.0 * std::f64::consts::PI / 360.0;
/// The maximum number of steps in an episode of CartPole-v1.
const MAX_STEPS: u32 = 500;

/// A pole balanced on a cart that is pushed to the left (0) or to the right (1): CartPole-v1 (Barto, Sutton and
/// Anderson, 1983).
///
/// Observations are position, velocity, angle and angular velocity, `[4]`. Each step earns 1. An episode ends when the
/// pole leans by 12° or the cart is 2.4 from the center; it is truncated after 500 steps.
pub type CartPole = Native<CartPoleTask>;

/// The task of [`CartPole`].
#[derive(Clone, Debug)]
pub struct CartPoleTask {
    stream: Generator,
    /// Position, velocity, angle, angular velocity.
    state: [f64; 4],
    steps: u32,
}

impl CartPole {
    /// Creates a task that starts like Gymnasium's environment after `reset(seed=seed)`. Later episodes match further
    /// resets without a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::from(CartPoleTask { stream: Generator::new(seed), state: [0.0; 4], steps: 0 })
    }
}

impl Task for CartPoleTask {
    type Action<'a> = u32;

    fn observations(&self) -> ArraySpec {
        let high = vec![MAX_POSITION * 2.0, f64::INFINITY, MAX_ANGLE * 2.0, f64::INFINITY];
        let low = high.iter().map(|bound| -bound).collect();
        ArraySpec::new("observation", DType::Float32, [4]).bounded_each(low, high)
    }

    fn actions(&self) -> ArraySpec {
        ArraySpec::discrete("action", 2)
    }

    #[inline]
    fn begin(&mut self, observation: &mut [f32]) {
        self.state = std::array::from_fn(|_| self.stream.uniform(-0.05, 0.05));
        self.steps = 0;
        write(observation, self.state);
    }

    #[inline]
    fn act(&mut self, action: u32, observation: &mut [f32]) -> TimeStep {
        let [x, x_speed, angle, angle_speed] = self.state;
        let force = if action == 1 { FORCE } else { -FORCE };
        let (sin, cos) = angle.sin_cos();
        let push = (force + POLE_MOMENT * (angle_speed * angle_speed) * sin) / TOTAL_MASS;
        let angle_acceleration =
            (GRAVITY * sin - cos * push) / (LENGTH * (4.0 / 3.0 - POLE_MASS * (cos * cos) / TOTAL_MASS));
        let x_acceleration = push - POLE_MOMENT * angle_acceleration * cos / TOTAL_MASS;
        self.state = [
            x + STEP_SECONDS * x_speed,
            x_speed + STEP_SECONDS * x_acceleration,
            angle + STEP_SECONDS * angle_speed,
            angle_speed + STEP_SECONDS * angle_acceleration,
        ];
        self.steps += 1;
        write(observation, self.state);
        let [x, _, angle, _] = self.state;
        let fallen = x.abs() > MAX_POSITION || angle.abs() > MAX_ANGLE;
        answer(1.0, fallen, self.steps == MAX_STEPS)
    }

    fn state(&mut self, state: &mut State<'_>) {
        self.stream.state(state);
        state.fields(&mut self.state);
        state.field(&mut self.steps);
    }
}
