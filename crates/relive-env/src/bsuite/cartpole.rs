//! Balancing a pole.

use relive_tensor::DType;

use super::Totals;
use super::pole::{MAX_POSITION, Pole};
use crate::random::RandomState;
use crate::spec::ArraySpec;
use crate::state::State;
use crate::task::{Native, Task};
use crate::timestep::TimeStep;

/// The minimum height of the tip.
const MIN_HEIGHT: f64 = 0.8;

/// A pole is balanced on a cart that is pushed left (0), not at all (1) or right (2), a hundred times a second.
///
/// Observations are position / 3, speed / 3, the sine and cosine of the angle, the angular velocity, and time / 10 s,
/// `[1, 6]`. A step earns 1 while the pole is up and the cart is within 3. The episode ends when either condition
/// fails, or after 10 s, with discount 0 in both cases.
pub type Cartpole = Native<CartpoleTask>;

/// The task of [`Cartpole`].
#[derive(Clone, Debug)]
pub struct CartpoleTask {
    stream: RandomState,
    pole: Pole,
    raw_return: f64,
    best_episode: f64,
    episode_return: f64,
}

impl Cartpole {
    /// Creates an environment that draws the starts of episodes from the seed's stream.
    #[must_use]
    pub fn new(seed: u32) -> Self {
        Self::from(CartpoleTask {
            stream: RandomState::new(seed),
            pole: Pole::default(),
            raw_return: 0.0,
            best_episode: 0.0,
            episode_return: 0.0,
        })
    }
}

impl Task for CartpoleTask {
    type Action<'a> = u32;

    fn observations(&self) -> ArraySpec {
        ArraySpec::new("observation", DType::Float32, [1, 6])
    }

    fn actions(&self) -> ArraySpec {
        ArraySpec::discrete("action", 3)
    }

    fn begin(&mut self, observation: &mut [f32]) {
        self.pole = Pole::start(&mut self.stream, 0.0);
        self.episode_return = 0.0;
        self.pole.observe(observation);
    }

    fn act(&mut self, action: u32, observation: &mut [f32]) -> TimeStep {
        self.pole.push(action);
        self.pole.observe(observation);
        let stands = self.pole.height() > MIN_HEIGHT && self.pole.position.abs() < MAX_POSITION;
        let reward = if stands { 1.0 } else { 0.0 };
        self.raw_return += reward;
        self.episode_return += reward;
        if stands && !self.pole.out_of_time() {
            return TimeStep::transition(reward);
        }
        self.best_episode = self.best_episode.max(self.episode_return);
        TimeStep::termination(reward)
    }

    fn state(&mut self, state: &mut State<'_>) {
        self.stream.state(state);
        self.pole.state(state);
        state.field(&mut self.raw_return);
        state.field(&mut self.best_episode);
        state.field(&mut self.episode_return);
    }
}

impl Totals for CartpoleTask {
    fn totals(&self) -> Vec<(&'static str, f64)> {
        vec![("raw_return", self.raw_return), ("best_episode", self.best_episode)]
    }
}
