//! Delayed rewards.

use super::memory::{Memory, checked_count, restore, save};
use crate::buffer::Action;
use crate::buffer::ViewMut;
use crate::environment::Environment;
use crate::error::EnvError;
use crate::spec::EnvironmentSpec;
use crate::state::State;
use crate::timestep::TimeStep;

/// Withholds rewards, and returns their sum once per period and at the end of an episode. All other rewards are 0.
#[derive(Clone, Debug)]
pub struct DelayedReward<E> {
    environment: E,
    period: Option<u64>,
    held: WithheldReward,
}

#[derive(Clone, Debug, Default)]
struct WithheldReward {
    steps: u64,
    sum: f64,
}

impl Memory for WithheldReward {
    fn state(&mut self, state: &mut State<'_>) {
        state.field(&mut self.steps);
        state.field(&mut self.sum);
    }
}

impl<E: Environment> DelayedReward<E> {
    /// Returns the wrapped environment.
    pub fn inner(&self) -> &E {
        &self.environment
    }

    /// Returns rewards every `period` steps, or only at the end of episodes if `period` is `None`.
    ///
    /// # Errors
    /// [`EnvError::Setting`] if the period is 0 or exceeds [`MAX_REPEATS`](crate::limits::MAX_REPEATS).
    pub fn new(environment: E, period: Option<usize>) -> Result<Self, EnvError> {
        let period = period.map(|period| checked_count("reward period", period)).transpose()?;
        Ok(Self { environment, period: period.map(|period| period as u64), held: WithheldReward::default() })
    }
}

impl<E: Environment> Environment for DelayedReward<E> {
    fn spec(&self) -> &EnvironmentSpec {
        self.environment.spec()
    }

    fn reset(&mut self, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        let step = self.environment.reset(observation)?;
        self.held = WithheldReward::default();
        Ok(step)
    }

    fn step(&mut self, action: Action<'_>, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        let mut step = self.environment.step(action, observation)?;
        if step.first() {
            self.held = WithheldReward::default();
            return Ok(step);
        }
        self.held.steps += 1;
        self.held.sum += step.reward;
        let due = self.period.is_some_and(|period| self.held.steps.is_multiple_of(period));
        step.reward = if due || step.last() { std::mem::take(&mut self.held.sum) } else { 0.0 };
        Ok(step)
    }

    fn demonstrate(&self, action: ViewMut<'_>) -> Result<bool, EnvError> {
        self.environment.demonstrate(action)
    }

    fn save(&mut self) -> Option<Vec<u8>> {
        save(&mut self.environment, &mut self.held)
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), EnvError> {
        restore(&mut self.environment, &mut self.held, state)
    }
}
