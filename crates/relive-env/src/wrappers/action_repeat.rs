//! Repeated actions.

use super::memory::checked_count;
use crate::buffer::Action;
use crate::buffer::ViewMut;
use crate::environment::Environment;
use crate::error::EnvError;
use crate::spec::EnvironmentSpec;
use crate::timestep::TimeStep;

/// Repeats every action the given number of times, or until the episode ends. The reward is the sum of the rewards,
/// each multiplied by the preceding discounts; the discount is the product of all discounts.
#[derive(Clone, Debug)]
pub struct ActionRepeat<E> {
    environment: E,
    repeats: usize,
}

impl<E: Environment> ActionRepeat<E> {
    /// Returns the wrapped environment.
    pub fn inner(&self) -> &E {
        &self.environment
    }

    /// Takes each action `repeats` times.
    ///
    /// # Errors
    /// [`EnvError::Setting`] if `repeats` is 0 or exceeds [`MAX_REPEATS`](crate::limits::MAX_REPEATS).
    pub fn new(environment: E, repeats: usize) -> Result<Self, EnvError> {
        Ok(Self { environment, repeats: checked_count("action repeats", repeats)? })
    }
}

impl<E: Environment> Environment for ActionRepeat<E> {
    fn spec(&self) -> &EnvironmentSpec {
        self.environment.spec()
    }

    fn reset(&mut self, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        self.environment.reset(observation)
    }

    fn step(&mut self, action: Action<'_>, mut observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        let mut all = self.environment.step(action, observation.reborrow())?;
        for _ in 1..self.repeats {
            if !all.mid() {
                break;
            }
            let step = self.environment.step(action, observation.reborrow())?;
            all.reward += all.discount * step.reward;
            all.discount *= step.discount;
            all.step_type = step.step_type;
        }
        Ok(all)
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
