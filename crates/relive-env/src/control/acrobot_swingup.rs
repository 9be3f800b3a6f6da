//! control/acrobot-swingup.

use std::f64::consts::PI;

use relive_tensor::DType;

use super::common::{GRAVITY, actions, answer, clipped, gaussian, runge_kutta};
use crate::classic::write;
use crate::random::Generator;
use crate::spec::ArraySpec;
use crate::state::State;
use crate::task::{Native, Task};
use crate::timestep::TimeStep;

const STEP_SECONDS: f64 = 0.01;
/// The length of each arm, which has a mass of 1.
const LENGTH: f64 = 1.0;
const HALF_LENGTH: f64 = 0.5;
/// The moment of inertia of an arm around its end.
const INERTIA: f64 = 1.0 / 3.0;
const DAMPING: f64 = 0.05;
/// The torque of an action of 1.
const TORQUE: f64 = 2.0;
/// The distance of the tip from its target within which a step earns 1.
const TARGET_RADIUS: f64 = 0.2;

/// The Control Suite's `acrobot` `swingup`: the agent swings up two arms that have a motor only in the elbow between
/// them.
///
/// Observations are the sines and then the cosines of both arms' angles from upright, and the velocities of shoulder
/// and elbow, `[6]`. A step earns 1 while the tip is within 0.2 of its highest position, and less when the tip is
/// farther away: 0.1 at a distance of 1.2.
pub type AcrobotSwingup = Native<AcrobotSwingupTask>;

/// The task of [`AcrobotSwingup`].
#[derive(Clone, Debug)]
pub struct AcrobotSwingupTask {
    stream: Generator,
    pose: Pose,
    steps: u32,
}

/// The angles of both arms from upright, and their velocities.
type Pose = [f64; 4];

impl AcrobotSwingup {
    /// Creates the task; the seed determines its episodes.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::from(AcrobotSwingupTask { stream: Generator::new(seed), pose: [0.0; 4], steps: 0 })
    }
}

/// Returns the derivative of a pose while a torque acts on the elbow, from Lagrange's equations for two rods.
fn change([upper, lower, upper_turning, lower_turning]: Pose, torque: f64) -> Pose {
    let (sin, cos) = (upper - lower).sin_cos();
    let coupling = LENGTH * HALF_LENGTH;
    let of_elbow = torque - DAMPING * (lower_turning - upper_turning);
    let on_upper = GRAVITY * (HALF_LENGTH + LENGTH) * upper.sin()
        - coupling * sin * lower_turning * lower_turning
        - DAMPING * upper_turning
        - of_elbow;
    let on_lower =
        GRAVITY * HALF_LENGTH * lower.sin() + coupling * sin * upper_turning * upper_turning + of_elbow;
    let (both, off) = (INERTIA + LENGTH * LENGTH, coupling * cos);
    let determinant = both * INERTIA - off * off;
    let upper_acceleration = (INERTIA * on_upper - off * on_lower) / determinant;
    let lower_acceleration = (both * on_lower - off * on_upper) / determinant;
    [upper_turning, lower_turning, upper_acceleration, lower_acceleration]
}

impl AcrobotSwingupTask {
    fn observe(&self, observation: &mut [f32]) {
        let [upper, lower, upper_turning, lower_turning] = self.pose;
        let elbow = lower_turning - upper_turning;
        write(observation, [upper.sin(), lower.sin(), upper.cos(), lower.cos(), upper_turning, elbow]);
    }

    fn reward(&self) -> f64 {
        let [upper, lower, ..] = self.pose;
        let aside = LENGTH * (upper.sin() + lower.sin());
        let below = LENGTH * (2.0 - upper.cos() - lower.cos());
        let beyond = (aside.hypot(below) - TARGET_RADIUS).max(0.0);
        gaussian(beyond, 1.0)
    }
}

impl Task for AcrobotSwingupTask {
    type Action<'a> = &'a [f32];

    fn observations(&self) -> ArraySpec {
        ArraySpec::new("observation", DType::Float32, [6])
    }

    fn actions(&self) -> ArraySpec {
        actions()
    }

    fn begin(&mut self, observation: &mut [f32]) {
        let (shoulder, elbow) = (self.stream.uniform(-PI, PI), self.stream.uniform(-PI, PI));
        self.pose = [shoulder, shoulder + elbow, 0.0, 0.0];
        self.steps = 0;
        self.observe(observation);
    }

    fn act(&mut self, action: &[f32], observation: &mut [f32]) -> TimeStep {
        let torque = TORQUE * clipped(action);
        self.pose = runge_kutta(self.pose, STEP_SECONDS, |pose| change(pose, torque));
        self.steps += 1;
        self.observe(observation);
        answer(self.reward(), self.steps)
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

    fn energy([upper, lower, upper_turning, lower_turning]: Pose) -> f64 {
        let coupling = LENGTH * HALF_LENGTH * (upper - lower).cos();
        0.5 * (INERTIA + LENGTH * LENGTH) * upper_turning * upper_turning
            + 0.5 * INERTIA * lower_turning * lower_turning
            + coupling * upper_turning * lower_turning
            + GRAVITY * ((HALF_LENGTH + LENGTH) * upper.cos() + HALF_LENGTH * lower.cos())
    }

    fn task(pose: Pose) -> AcrobotSwingupTask {
        AcrobotSwingupTask { stream: Generator::new(1), pose, steps: 0 }
    }

    #[test]
    fn energy_changes_by_damping_and_motor_work_only() {
        for action in [0.0_f32, 1.0] {
            let mut task = task([2.0, 1.0, 0.5, -0.7]);
            let (mut expected, mut observation) = (energy(task.pose), [0.0; 6]);
            let loss = |[_, _, upper, lower]: Pose| DAMPING * (upper * upper + (lower - upper).powi(2));
            for _ in 0..200 {
                let before = task.pose;
                task.act(&[action], &mut observation);
                let turned = (task.pose[1] - task.pose[0]) - (before[1] - before[0]);
                expected += f64::from(action) * TORQUE * turned;
                expected -= STEP_SECONDS * 0.5 * (loss(before) + loss(task.pose));
            }
            assert!((energy(task.pose) - expected).abs() < 0.02, "{} {expected}", energy(task.pose));
        }
    }

    #[test]
    fn upright_gets_full_reward_and_hanging_none() {
        let reward = |pose| task(pose).act(&[0.0], &mut [0.0; 6]).reward;
        assert_eq!(reward([0.0; 4]), 1.0);
        assert!(reward([PI, PI, 0.0, 0.0]) < 1e-9);
        // The upper arm is horizontal, the lower one upright: the tip is 1 below its highest position and 1 to the side
        // of it.
        let beyond = 2.0_f64.sqrt() - TARGET_RADIUS;
        assert!((reward([PI / 2.0, 0.0, 0.0, 0.0]) - 0.1_f64.powf(beyond * beyond)).abs() < 1e-2);
    }
}
