//! A time limit.

use super::memory::{Memory, checked_count, restore, save};
use crate::buffer::Action;
use crate::buffer::ViewMut;
use crate::environment::Environment;
use crate::error::EnvError;
use crate::spec::EnvironmentSpec;
use crate::state::State;
use crate::timestep::{StepType, TimeStep};

/// Truncates episodes after the given number of steps: the last of these steps becomes a LAST and keeps its discount.
///
/// ```
/// use relive_env::{Action, Buffer, Environment, classic::CartPole, wrappers::StepLimit};
/// let mut environment = StepLimit::new(CartPole::new(1), 3)?;
/// let mut observation = Buffer::for_nest(&environment.spec().observations, 1)?;
/// let mut step = || environment.step(Action::Discrete(1), observation.view_mut());
/// assert!(step()?.first() && step()?.mid() && step()?.mid());
/// let last = step()?;
/// assert!(last.last() && last.discount == 1.0);
/// assert!(step()?.first());
/// # Ok::<(), relive_env::EnvError>(())
/// ```
#[derive(Clone, Debug)]
pub struct StepLimit<E> {
    environment: E,
    limit: u64,
    clock: Clock,
}

#[derive(Clone, Debug, Default)]
struct Clock {
    steps: u64,
    /// Whether the next step is a reset. The wrapped environment's own episode may still be in progress.
    over: bool,
}

impl Memory for Clock {
    fn state(&mut self, state: &mut State<'_>) {
        state.field(&mut self.steps);
        state.field(&mut self.over);
    }
}

impl<E: Environment> StepLimit<E> {
    /// Returns the wrapped environment.
    pub fn inner(&self) -> &E {
        &self.environment
    }

    /// Limits episodes to `limit` steps.
    ///
    /// # Errors
    /// [`EnvError::Setting`] if the limit is 0 or exceeds [`MAX_REPEATS`](crate::limits::MAX_REPEATS).
    pub fn new(environment: E, limit: usize) -> Result<Self, EnvError> {
        let limit = checked_count("step limit", limit)? as u64;
        Ok(Self { environment, limit, clock: Clock::default() })
    }
}

impl<E: Environment> Environment for StepLimit<E> {
    fn spec(&self) -> &EnvironmentSpec {
        self.environment.spec()
    }

    fn reset(&mut self, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        let step = self.environment.reset(observation)?;
        self.clock = Clock::default();
        Ok(step)
    }

    fn step(&mut self, action: Action<'_>, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        if self.clock.over {
            return self.reset(observation);
        }
        let mut step = self.environment.step(action, observation)?;
        self.clock.steps = if step.first() { 0 } else { self.clock.steps + 1 };
        if step.mid() && self.clock.steps >= self.limit {
            step.step_type = StepType::Last;
        }
        self.clock.over = step.last();
        Ok(step)
    }

    fn demonstrate(&self, action: ViewMut<'_>) -> Result<bool, EnvError> {
        self.environment.demonstrate(action)
    }

    fn save(&mut self) -> Option<Vec<u8>> {
        save(&mut self.environment, &mut self.clock)
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), EnvError> {
        restore(&mut self.environment, &mut self.clock, state)
    }
}
