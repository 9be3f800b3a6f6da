//! Rewards with noise, or with a different scale.

use super::Totals;
use crate::buffer::Action;
use crate::buffer::ViewMut;
use crate::environment::Environment;
use crate::error::EnvError;
use crate::random::RandomState;
use crate::spec::EnvironmentSpec;
use crate::timestep::TimeStep;
use crate::wrappers::memory;

/// An environment whose rewards are changed.
#[derive(Clone, Debug)]
pub struct Reward<E> {
    environment: E,
    change: Change,
}

#[derive(Clone, Debug)]
enum Change {
    Noise { scale: f64, stream: Box<RandomState> },
    Scale(f64),
}

impl<E> Reward<E> {
    /// Adds normal noise, which comes from its own stream, seeded by `seed`.
    pub fn with_noise(environment: E, noise_scale: f64, seed: u32) -> Self {
        let change = Change::Noise { scale: noise_scale, stream: Box::new(RandomState::new(seed)) };
        Self { environment, change }
    }

    /// Multiplies rewards by `reward_scale`.
    pub fn scaled(environment: E, reward_scale: f64) -> Self {
        Self { environment, change: Change::Scale(reward_scale) }
    }
}

impl<E: Environment> Environment for Reward<E> {
    fn spec(&self) -> &EnvironmentSpec {
        self.environment.spec()
    }

    fn reset(&mut self, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        self.environment.reset(observation)
    }

    fn step(&mut self, action: Action<'_>, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        let mut step = self.environment.step(action, observation)?;
        if !step.first() {
            match &mut self.change {
                Change::Noise { scale, stream } => step.reward += *scale * stream.standard_normal(),
                Change::Scale(scale) => step.reward *= *scale,
            }
        }
        Ok(step)
    }

    fn demonstrate(&self, action: ViewMut<'_>) -> Result<bool, EnvError> {
        self.environment.demonstrate(action)
    }

    fn save(&mut self) -> Option<Vec<u8>> {
        match &mut self.change {
            Change::Noise { stream, .. } => memory::save(&mut self.environment, stream.as_mut()),
            Change::Scale(_) => self.environment.save(),
        }
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), EnvError> {
        match &mut self.change {
            Change::Noise { stream, .. } => memory::restore(&mut self.environment, stream.as_mut(), bytes),
            Change::Scale(_) => self.environment.restore(bytes),
        }
    }
}

impl<E: Totals> Totals for Reward<E> {
    fn totals(&self) -> Vec<(&'static str, f64)> {
        self.environment.totals()
    }
}
