//! Swinging up a pole.

use std::f64::consts::PI;

use relive_tensor::DType;

use super::Totals;
use super::pole::{MAX_POSITION, Pole};
use crate::random::RandomState;
use crate::spec::ArraySpec;
use crate::state::State;
use crate::task::{Native, Task};
use crate::timestep::TimeStep;

/// The maximum angular speed at which the pole earns a reward.
const MAX_ANGLE_SPEED: f64 = 1.0;
const MOVE_COST: f64 = 0.1;
const FIRST_FLAG: usize = 6;

/// The pole of [`Cartpole`](super::Cartpole), initially hanging. Pushing costs 0.1. A step earns 1 while the tip is
/// higher than a threshold, the pole turns more slowly than 1, and the cart is near the center.
///
/// Observations are those of [`Cartpole`](super::Cartpole), followed by two flags, each 1 or -1, `[1, 8]`: whether the
/// cart is near enough, and whether the pole is slow enough. The episode ends after 10 s or beyond 3, with discount 0
/// in both cases.
pub type CartpoleSwingup = Native<CartpoleSwingupTask>;

/// The task of [`CartpoleSwingup`].
#[derive(Clone, Debug)]
pub struct CartpoleSwingupTask {
    min_height: f64,
    max_position: f64,
    stream: RandomState,
    pole: Pole,
    raw_return: f64,
    total_upright: f64,
    best_episode: f64,
    episode_return: f64,
}

impl CartpoleSwingup {
    /// The pole is up if the cosine of its angle exceeds `height_threshold`; `x_reward_threshold` is the permitted
    /// distance from the center.
    #[must_use]
    pub fn new(height_threshold: f64, x_reward_threshold: f64, seed: u32) -> Self {
        Self::from(CartpoleSwingupTask {
            min_height: height_threshold,
            max_position: x_reward_threshold,
            stream: RandomState::new(seed),
            pole: Pole::default(),
            raw_return: 0.0,
            total_upright: 0.0,
            best_episode: 0.0,
            episode_return: 0.0,
        })
    }
}

impl CartpoleSwingupTask {
    fn is_near(&self) -> bool {
        self.pole.position.abs() < self.max_position
    }

    fn is_slow(&self) -> bool {
        self.pole.angle_speed.abs() < MAX_ANGLE_SPEED
    }

    fn observe(&self, observation: &mut [f32]) {
        self.pole.observe(observation);
        let flags = [self.is_near(), self.is_slow()];
        for (cell, flag) in observation.iter_mut().skip(FIRST_FLAG).zip(flags) {
            *cell = if flag { 1.0 } else { -1.0 };
        }
    }
}

impl Task for CartpoleSwingupTask {
    type Action<'a> = u32;

    fn observations(&self) -> ArraySpec {
        ArraySpec::new("state", DType::Float32, [1, 8])
    }

    fn actions(&self) -> ArraySpec {
        ArraySpec::discrete("action", 3)
    }

    fn begin(&mut self, observation: &mut [f32]) {
        self.pole = Pole::start(&mut self.stream, PI);
        self.episode_return = 0.0;
        self.observe(observation);
    }

    fn act(&mut self, action: u32, observation: &mut [f32]) -> TimeStep {
        self.pole.push(action);
        self.observe(observation);
        let mut reward = -f64::from(action.abs_diff(1)) * MOVE_COST;
        if self.pole.height() > self.min_height && self.is_slow() && self.is_near() {
            reward += 1.0;
            self.total_upright += 1.0;
        }
        self.raw_return += reward;
        self.episode_return += reward;
        if !self.pole.out_of_time() && self.pole.position.abs() <= MAX_POSITION {
            return TimeStep::transition(reward);
        }
        self.best_episode = self.best_episode.max(self.episode_return);
        TimeStep::termination(reward)
    }

    fn state(&mut self, state: &mut State<'_>) {
        state.constant(self.min_height);
        state.constant(self.max_position);
        self.stream.state(state);
        self.pole.state(state);
        state.field(&mut self.raw_return);
        state.field(&mut self.total_upright);
        state.field(&mut self.best_episode);
        state.field(&mut self.episode_return);
    }
}

impl Totals for CartpoleSwingupTask {
    fn totals(&self) -> Vec<(&'static str, f64)> {
        let upright = ("total_upright", self.total_upright);
        vec![("raw_return", self.raw_return), upright, ("best_episode", self.best_episode)]
    }
}
