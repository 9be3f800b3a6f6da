//! control/pendulum-swingup.

use std::f64::consts::PI;

use relive_tensor::DType;

use super::common::{GRAVITY, actions, answer, clipped, runge_kutta};
use crate::classic::write;
use crate::random::Generator;
use crate::spec::ArraySpec;
use crate::state::State;
use crate::task::{Native, Task};
use crate::timestep::TimeStep;

const STEP_SECONDS: f64 = 0.02;
const MASS: f64 = 1.0;
const LENGTH: f64 = 0.5;
const DAMPING: f64 = 0.1;
/// The mass times the squared length.
const INERTIA: f64 = MASS * LENGTH * LENGTH;
/// The angle from upright, in degrees, within which a step earns 1.
const MAX_DEGREES: f64 = 8.0;

/// The Control Suite's `pendulum` `swingup`: the agent swings up a pendulum that is too heavy for its motor, and holds
/// it upright.
///
/// Observations are the cosine and the sine of the angle from upright, and the angular velocity, `[3]`. A step earns 1
/// within 8 degrees of upright, otherwise 0.
pub type PendulumSwingup = Native<PendulumSwingupTask>;

/// The task of [`PendulumSwingup`].
#[derive(Clone, Debug)]
pub struct PendulumSwingupTask {
    stream: Generator,
    pose: Pose,
    steps: u32,
}

/// The angle and the angular velocity.
type Pose = [f64; 2];

impl PendulumSwingup {
    /// Creates the task; the seed determines its episodes.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::from(PendulumSwingupTask { stream: Generator::new(seed), pose: [0.0; 2], steps: 0 })
    }
}

fn change([angle, turning]: Pose, torque: f64) -> Pose {
    let pulled = MASS * GRAVITY * LENGTH * angle.sin();
    [turning, (pulled + torque - DAMPING * turning) / INERTIA]
}

impl PendulumSwingupTask {
    fn observe(&self, observation: &mut [f32]) {
        let [angle, turning] = self.pose;
        write(observation, [angle.cos(), angle.sin(), turning]);
    }
}

impl Task for PendulumSwingupTask {
    type Action<'a> = &'a [f32];

    fn observations(&self) -> ArraySpec {
        ArraySpec::new("observation", DType::Float32, [3])
    }

    fn actions(&self) -> ArraySpec {
        actions()
    }

    fn begin(&mut self, observation: &mut [f32]) {
        self.pose = [self.stream.uniform(-PI, PI), 0.0];
        self.steps = 0;
        self.observe(observation);
    }

    fn act(&mut self, action: &[f32], observation: &mut [f32]) -> TimeStep {
        let torque = clipped(action);
        self.pose = runge_kutta(self.pose, STEP_SECONDS, |pose| change(pose, torque));
        self.steps += 1;
        self.observe(observation);
        let is_up = self.pose[0].cos() >= MAX_DEGREES.to_radians().cos();
        answer(if is_up { 1.0 } else { 0.0 }, self.steps)
    }

    fn state(&mut self, state: &mut State<'_>) {
        self.stream.state(state);
        state.fields(&mut self.pose);
        state.field(&mut self.steps);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn energy([angle, turning]: Pose) -> f64 {
        0.5 * INERTIA * turning * turning + MASS * GRAVITY * LENGTH * angle.cos()
    }

    fn task(pose: Pose) -> PendulumSwingupTask {
        PendulumSwingupTask { stream: Generator::new(1), pose, steps: 0 }
    }

    #[test]
    fn energy_is_lost_to_damping_alone() {
        let mut task = task([2.0, 1.0]);
        let (mut expected, mut observation) = (energy(task.pose), [0.0; 3]);
        for _ in 0..100 {
            let before = task.pose[1];
            task.act(&[0.0], &mut observation);
            expected -= STEP_SECONDS * DAMPING * 0.5 * (before * before + task.pose[1] * task.pose[1]);
        }
        assert!((energy(task.pose) - expected).abs() < 5e-3, "{} {expected}", energy(task.pose));
    }

    #[test]
    fn only_upright_is_rewarded_and_constant_torque_does_not_swing_up() {
        let mut observation = [0.0; 3];
        assert_eq!(task([0.0, 0.0]).act(&[0.0], &mut observation).reward, 1.0);
        assert_eq!(task([0.2, 0.0]).act(&[0.0], &mut observation).reward, 0.0);
        let mut hanging = task([PI, 0.0]);
        let total: f64 = (0..900).map(|_| hanging.act(&[1.0], &mut observation).reward).sum();
        assert_eq!(total, 0.0);
    }

    #[test]
    fn a_controller_swings_the_acrobot_up() {
        let mut task = task([PI, 0.1]);
        let (mut observation, mut total) = ([-1.0_f32, 0.0, 0.1], 0.0);
        for _ in 0..1000 {
            let [cos, sin, turning] = observation;
            // Pumps energy into the pendulum until it can reach the upright position, where feedback then holds it.
            let missing = 4.905 * (1.0 - cos) - 0.125 * turning * turning;
            let pumped = (20.0 * missing * turning.signum()).clamp(-1.0, 1.0);
            let torque = if cos > 0.985 { -8.0 * sin - 3.0 * turning } else { pumped };
            total += task.act(&[torque], &mut observation).reward;
        }
        assert!(total > 500.0, "{total}");
    }
}
