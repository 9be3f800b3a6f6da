//! Rewards with noise, or with a different scale.

use super::Totals;
use crate::buffer::Action;
use crate::buffer::ViewMut;
use crate::environment::Environment;
use crate::error::EnvError;
use crate::random::RandomState;
use crate::spec::EnvironmentSpec;
use crate::state::State;
use crate::timestep::TimeStep;

/// An environment that adds normal noise to rewards.
#[derive(Clone, Debug)]
pub struct RewardNoise<E> {
    environment: E,
    noise_scale: f64,
    stream: RandomState,
}

/// An environment that multiplies rewards.
#[derive(Clone, Debug)]
pub struct RewardScale<E> {
    environment: E,
    reward_scale: f64,
}

impl<E> RewardNoise<E> {
    /// Creates an environment whose noise comes from its own stream, seeded by `seed`.
    pub fn new(environment: E, noise_scale: f64, seed: u32) -> Self {
        Self { environment, noise_scale, stream: RandomState::new(seed) }
    }
}

impl<E> RewardScale<E> {
    /// Multiplies rewards by `reward_scale`.
    pub fn new(environment: E, reward_scale: f64) -> Self {
        Self { environment, reward_scale }
    }
}

impl<E: Environment> Environment for RewardNoise<E> {
    fn spec(&self) -> &EnvironmentSpec {
        self.environment.spec()
    }

    fn reset(&mut self, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        self.environment.reset(observation)
    }

    fn step(&mut self, action: Action<'_>, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        let mut step = self.environment.step(action, observation)?;
        if !step.first() {
            step.reward += self.noise_scale * self.stream.standard_normal();
        }
        Ok(step)
    }

    fn demonstrate(&self, action: ViewMut<'_>) -> Result<bool, EnvError> {
        self.environment.demonstrate(action)
    }

    fn save(&mut self) -> Option<Vec<u8>> {
        let mut inner = self.environment.save()?;
        let mut bytes = Vec::new();
        let mut state = State::writer(&mut bytes);
        state.bytes(&mut inner);
        self.stream.state(&mut state);
        Some(bytes)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), EnvError> {
        let (mut inner, mut stream) = (Vec::new(), self.stream.clone());
        let mut state = State::reader(bytes);
        state.bytes(&mut inner);
        stream.state(&mut state);
        state.finish()?;
        self.environment.restore(&inner)?;
        self.stream = stream;
        Ok(())
    }
}

impl<E: Environment> Environment for RewardScale<E> {
    fn spec(&self) -> &EnvironmentSpec {
        self.environment.spec()
    }

    fn reset(&mut self, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        self.environment.reset(observation)
    }

    fn step(&mut self, action: Action<'_>, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        let mut step = self.environment.step(action, observation)?;
        if !step.first() {
            step.reward *= self.reward_scale;
        }
        Ok(step)
    }

    fn demonstrate(&self, action: ViewMut<'_>) -> Result<bool, EnvError> {
        self.environment.demonstrate(action)
    }

    fn save(&mut self) -> Option<Vec<u8>> {
        self.environment.save()
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), EnvError> {
        self.environment.restore(state)
    }
}

impl<E: Totals> Totals for RewardNoise<E> {
    fn totals(&self) -> Vec<(&'static str, f64)> {
        self.environment.totals()
    }
}

impl<E: Totals> Totals for RewardScale<E> {
    fn totals(&self) -> Vec<(&'static str, f64)> {
        self.environment.totals()
    }
}
