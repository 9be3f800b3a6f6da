//! Acrobot-v1.

use std::f64::consts::{FRAC_PI_2, PI};

use relive_tensor::DType;

use super::answer::{answer, write};
use crate::number::square;
use crate::random::Generator;
use crate::spec::ArraySpec;
use crate::state::State;
use crate::task::{Native, Task};
use crate::timestep::TimeStep;

const MAX_SPEED_1: f64 = 4.0 * PI;
const MAX_SPEED_2: f64 = 9.0 * PI;
const GRAVITY: f64 = 9.8;
/// The distance of a link's center of mass from its joint. Each link has length, mass and moment of inertia 1.
const CENTRE: f64 = 0.5;
const STEP_SECONDS: f64 = 0.2;
/// The maximum number of steps in an episode of Acrobot-v1.
const MAX_STEPS: u32 = 500;

/// The angle of the first link, the angle of the second link relative to the first, and the velocities of both angles.
type Pose = [f64; 4];

/// Two links that hang from a joint. A torque turns the second link left (0), not at all (1) or right (2), until its
/// tip is a link's length above the joint: Acrobot-v1 (Sutton, 1996).
///
/// Observations are the cosine and sine of both angles, and both velocities, `[6]`. Each step earns -1, except the last
/// one, which earns 0. An episode is truncated after 500 steps.
pub type Acrobot = Native<AcrobotTask>;

/// The task of [`Acrobot`].
#[derive(Clone, Debug)]
pub struct AcrobotTask {
    stream: Generator,
    pose: Pose,
    steps: u32,
}

impl Acrobot {
    /// Creates a task that starts like Gymnasium's environment after `reset(seed=seed)`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::from(AcrobotTask { stream: Generator::new(seed), pose: [0.0; 4], steps: 0 })
    }
}

impl AcrobotTask {
    fn observe(&self, observation: &mut [f32]) {
        let [first, second, first_speed, second_speed] = self.pose;
        let angles = [first.cos(), first.sin(), second.cos(), second.sin()];
        let [a, b, c, d] = angles;
        write(observation, [a, b, c, d, first_speed, second_speed]);
    }

    fn is_up(&self) -> bool {
        let [first, second, ..] = self.pose;
        -first.cos() - (second + first).cos() > 1.0
    }
}

/// Returns the derivative of a pose, from the equations in Sutton and Barto's book.
fn change(pose: Pose, torque: f64) -> Pose {
    let [first, second, first_speed, second_speed] = pose;
    let (sin, cos) = (second.sin(), second.cos());
    let centre = CENTRE * CENTRE;
    let inertia = centre + (1.0 + centre + 2.0 * CENTRE * cos) + 1.0 + 1.0;
    let coupling = (centre + CENTRE * cos) + 1.0;
    let outer = CENTRE * GRAVITY * (first + second - FRAC_PI_2).cos();
    let inner = -CENTRE * square(second_speed) * sin - 2.0 * CENTRE * second_speed * first_speed * sin
        + (CENTRE + 1.0) * GRAVITY * (first - FRAC_PI_2).cos()
        + outer;
    let second_acceleration =
        (torque + coupling / inertia * inner - CENTRE * square(first_speed) * sin - outer)
            / (centre + 1.0 - square(coupling) / inertia);
    let first_acceleration = -(coupling * second_acceleration + inner) / inertia;
    [first_speed, second_speed, first_acceleration, second_acceleration]
}

/// Takes one step of the classical Runge-Kutta method.
fn integrate(pose: Pose, torque: f64) -> Pose {
    let moved = |by: f64, along: Pose| std::array::from_fn(|i| pose[i] + by * along[i]);
    let half = STEP_SECONDS / 2.0;
    let k1 = change(pose, torque);
    let k2 = change(moved(half, k1), torque);
    let k3 = change(moved(half, k2), torque);
    let k4 = change(moved(STEP_SECONDS, k3), torque);
    std::array::from_fn(|i| pose[i] + STEP_SECONDS / 6.0 * (k1[i] + 2.0 * k2[i] + 2.0 * k3[i] + k4[i]))
}

fn wrap(mut angle: f64) -> f64 {
    while angle > PI {
        angle -= 2.0 * PI;
    }
    while angle < -PI {
        angle += 2.0 * PI;
    }
    angle
}

impl Task for AcrobotTask {
    type Action<'a> = u32;

    #[expect(clippy::cast_possible_truncation, reason = "bounds of float32")]
    fn observations(&self) -> ArraySpec {
        let high = [1.0, 1.0, 1.0, 1.0, MAX_SPEED_1, MAX_SPEED_2].map(|bound| f64::from(bound as f32));
        ArraySpec::new("observation", DType::Float32, [6])
            .bounded_each(high.map(|bound| -bound).to_vec(), high.to_vec())
    }

    fn actions(&self) -> ArraySpec {
        ArraySpec::discrete("action", 3)
    }

    #[expect(clippy::cast_possible_truncation, reason = "Gymnasium begins with float32")]
    fn begin(&mut self, observation: &mut [f32]) {
        self.pose = std::array::from_fn(|_| f64::from(self.stream.uniform(-0.1, 0.1) as f32));
        self.steps = 0;
        self.observe(observation);
    }

    fn act(&mut self, action: u32, observation: &mut [f32]) -> TimeStep {
        let [first, second, first_speed, second_speed] = integrate(self.pose, f64::from(action) - 1.0);
        self.pose = [
            wrap(first),
            wrap(second),
            first_speed.clamp(-MAX_SPEED_1, MAX_SPEED_1),
            second_speed.clamp(-MAX_SPEED_2, MAX_SPEED_2),
        ];
        self.steps += 1;
        self.observe(observation);
        let up = self.is_up();
        answer(if up { 0.0 } else { -1.0 }, up, self.steps == MAX_STEPS)
    }

    fn state(&mut self, state: &mut State<'_>) {
        self.stream.state(state);
        state.fields(&mut self.pose);
        state.field(&mut self.steps);
    }
}
