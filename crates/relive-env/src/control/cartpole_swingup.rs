//! control/cartpole-swingup.

use std::f64::consts::PI;

use relive_tensor::DType;

use super::common::{GRAVITY, actions, answer, clipped, gaussian, normal, quadratic, runge_kutta};
use crate::classic::write;
use crate::random::Generator;
use crate::spec::ArraySpec;
use crate::state::State;
use crate::task::{Native, Task};
use crate::timestep::TimeStep;

const STEP_SECONDS: f64 = 0.01;
const CART_MASS: f64 = 1.0;
const POLE_MASS: f64 = 0.1;
/// The distance from the hinge to the middle of the pole.
const HALF_LENGTH: f64 = 0.5;
/// The moment of inertia of the pole around its hinge: a third of its mass times its length squared.
const INERTIA: f64 = POLE_MASS / 3.0;
const RAIL_DAMPING: f64 = 5e-4;
const HINGE_DAMPING: f64 = 2e-6;
/// The force of an action of 1, in newtons.
const FORCE: f64 = 10.0;
/// The length of the rail on either side.
const RAIL: f64 = 1.8;

/// The Control Suite's `cartpole` `swingup`: the agent swings up a pole that initially hangs from a cart, and holds it
/// above the middle of the rail.
///
/// Observations are the position, cosine and sine of the angle from upright, and both velocities, `[5]`. A step earns
/// the product of four factors: how upright the pole is, how near the cart is to the middle, how small the action is,
/// and how slow the pole is.
pub type CartpoleSwingup = Native<CartpoleSwingupTask>;

/// The task of [`CartpoleSwingup`].
#[derive(Clone, Debug)]
pub struct CartpoleSwingupTask {
    stream: Generator,
    pose: Pose,
    steps: u32,
}

/// Position, angle, and their velocities.
type Pose = [f64; 4];

impl CartpoleSwingup {
    /// Creates the task; the seed determines its episodes.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::from(CartpoleSwingupTask { stream: Generator::new(seed), pose: [0.0; 4], steps: 0 })
    }
}

/// Returns the derivative of a pose while a force acts on the cart, from Lagrange's equations for the cart and the rod.
fn change(pose: Pose, force: f64) -> Pose {
    let [_, angle, speed, turning] = pose;
    let (sin, cos) = angle.sin_cos();
    let lever = POLE_MASS * HALF_LENGTH;
    let mass = CART_MASS + POLE_MASS;
    let pushed = force - RAIL_DAMPING * speed + lever * sin * turning * turning;
    let turned = lever * GRAVITY * sin - HINGE_DAMPING * turning;
    let determinant = mass * INERTIA - (lever * cos).powi(2);
    let acceleration = (INERTIA * pushed - lever * cos * turned) / determinant;
    let turning_acceleration = (mass * turned - lever * cos * pushed) / determinant;
    [speed, turning, acceleration, turning_acceleration]
}

impl CartpoleSwingupTask {
    fn observe(&self, observation: &mut [f32]) {
        let [position, angle, speed, turning] = self.pose;
        write(observation, [position, angle.cos(), angle.sin(), speed, turning]);
    }

    /// Stops the cart at the end of the rail. The pole keeps its angular momentum around the hinge.
    fn stop_at_end(&mut self) {
        let [position, angle, speed, turning] = &mut self.pose;
        if position.abs() > RAIL {
            *position = position.clamp(-RAIL, RAIL);
            if *position * *speed > 0.0 {
                *turning += POLE_MASS * HALF_LENGTH * angle.cos() * *speed / INERTIA;
                *speed = 0.0;
            }
        }
    }

    fn reward(&self, action: f64) -> f64 {
        let [position, angle, _, turning] = self.pose;
        let upright = f64::midpoint(angle.cos(), 1.0);
        let centred = f64::midpoint(1.0, gaussian(position, 2.0));
        let effortless = (4.0 + quadratic(action, 1.0)) / 5.0;
        let slow = f64::midpoint(1.0, gaussian(turning, 5.0));
        upright * effortless * slow * centred
    }
}

impl Task for CartpoleSwingupTask {
    type Action<'a> = &'a [f32];

    fn observations(&self) -> ArraySpec {
        ArraySpec::new("observation", DType::Float32, [5])
    }

    fn actions(&self) -> ArraySpec {
        actions()
    }

    fn begin(&mut self, observation: &mut [f32]) {
        let [position, angle, speed, turning] = std::array::from_fn(|_| 0.01 * normal(&mut self.stream));
        self.pose = [position, PI + angle, speed, turning];
        self.steps = 0;
        self.observe(observation);
    }

    fn act(&mut self, action: &[f32], observation: &mut [f32]) -> TimeStep {
        let action = clipped(action);
        self.pose = runge_kutta(self.pose, STEP_SECONDS, |pose| change(pose, FORCE * action));
        self.stop_at_end();
        self.steps += 1;
        self.observe(observation);
        answer(self.reward(action), self.steps)
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

    fn energy([_, angle, speed, turning]: Pose) -> f64 {
        let lever = POLE_MASS * HALF_LENGTH;
        let motion = 0.5 * (CART_MASS + POLE_MASS) * speed * speed
            + lever * angle.cos() * speed * turning
            + 0.5 * INERTIA * turning * turning;
        motion + lever * GRAVITY * angle.cos()
    }

    fn task(pose: Pose) -> CartpoleSwingupTask {
        CartpoleSwingupTask { stream: Generator::new(1), pose, steps: 0 }
    }

    #[test]
    fn energy_is_conserved_without_a_force_and_changes_by_its_work() {
        let mut task = task([0.0, 1.2, 0.3, -0.5]);
        let before = energy(task.pose);
        let mut observation = [0.0; 5];
        for _ in 0..300 {
            task.act(&[0.0], &mut observation);
        }
        assert!(task.pose[0].abs() < RAIL && task.pose[1].abs() > 0.0);
        assert!((energy(task.pose) - before).abs() < 2e-3, "{} {before}", energy(task.pose));
        let (before, place) = (energy(task.pose), task.pose[0]);
        task.act(&[1.0], &mut observation);
        let work = FORCE * (task.pose[0] - place);
        assert!((energy(task.pose) - before - work).abs() < 1e-4);
    }

    #[test]
    fn upright_in_the_center_gets_full_reward_and_hanging_none() {
        let mut observation = [0.0; 5];
        let still = task([0.0; 4]).act(&[0.0], &mut observation).reward;
        assert!((still - 1.0).abs() < 1e-9, "{still}");
        let pushed = task([0.0; 4]).act(&[1.0], &mut observation).reward;
        assert!((0.75..0.8).contains(&pushed), "{pushed}");
        let hanging = task([0.0, PI, 0.0, 0.0]).act(&[0.0], &mut observation).reward;
        assert!(hanging.abs() < 1e-9, "{hanging}");
    }

    #[test]
    fn the_cart_stops_at_the_end_of_the_rail_while_the_pole_swings() {
        let mut task = task([1.79, 0.0, 3.0, 0.0]);
        task.act(&[0.0], &mut [0.0; 5]);
        let [position, _, speed, turning] = task.pose;
        assert_eq!((position, speed), (RAIL, 0.0));
        assert!((turning - 1.5 * 3.0).abs() < 0.1, "{turning}");
    }

    /// Pumps energy into the pole until it is up, then holds it there by feedback.
    fn controlled([position, cos, sin, speed, turning]: [f32; 5]) -> f32 {
        let angle = sin.atan2(cos);
        if angle.abs() < 0.4 {
            return (1.2 * position + 1.8 * speed + 14.0 * angle + 3.5 * turning).clamp(-1.0, 1.0);
        }
        let missing = 0.4905 * (1.0 - cos) - 0.5 * 0.0333 * turning * turning;
        (-12.0 * missing * (turning * cos).signum() * 0.5 - 0.4 * position - 0.2 * speed).clamp(-1.0, 1.0)
    }

    #[test]
    fn a_controller_swings_the_pole_up() {
        let mut task = task([0.0; 4]);
        let mut observation = [0.0; 5];
        task.begin(&mut observation);
        let (mut total, mut last) = (0.0, 0.0);
        for step in 1..=1000 {
            let answer = task.act(&[controlled(observation)], &mut observation);
            assert_eq!(answer.last(), step == 1000);
            assert!((0.0..=1.0).contains(&answer.reward));
            (total, last) = (total + answer.reward, answer.reward);
        }
        assert!(total > 600.0 && last > 0.9, "{total} {last} {observation:?}");
    }
}
