//! The interface of several environments that are stepped together.

use std::fmt;

use crate::buffer::Buffer;
use crate::environment::Environment;
use crate::error::{EnvError, Mismatch};
use crate::limits::MAX_ENVIRONMENTS;
use crate::spec::EnvironmentSpec;
use crate::timestep::TimeStep;

/// Environments of one kind that are stepped together, each with its own row of `[N, …]` buffers.
///
/// Each environment obeys the rules of [`Environment`](crate::Environment) on its own: the step after a LAST ignores
/// the action, starts a new episode and returns FIRST. Therefore, no last observation is lost, and no environment waits
/// for another environment.
pub trait BatchEnvironment: Send {
    /// Returns the number of environments.
    fn len(&self) -> usize;

    /// Returns whether there are no environments, which is always false.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of agents of each game: this many rows in sequence belong to one environment of several
    /// agents, whose episodes are parts of the same game. By default, each row is an environment of its own.
    fn agents(&self) -> usize {
        1
    }

    /// Returns the specs of each environment.
    fn spec(&self) -> &EnvironmentSpec;

    /// Starts an episode in each environment.
    ///
    /// # Errors
    /// [`EnvError::Observation`] if the number of rows or answers differs from the number of environments, or if rows
    /// have a different layout. If one environment fails, the effects on the others remain.
    fn reset(&mut self, observations: &mut Buffer, answers: &mut [TimeStep]) -> Result<(), EnvError>;

    /// Takes one step in each environment: row `i` of `actions` in environment `i`.
    ///
    /// # Errors
    /// [`EnvError::Action`] with the row of an action that is not allowed, and the errors of [`reset`](Self::reset).
    fn step(
        &mut self,
        actions: &Buffer,
        observations: &mut Buffer,
        answers: &mut [TimeStep],
    ) -> Result<(), EnvError>;

    /// Returns the environment of a row, for looking ahead. A caller that steps it must restore it afterwards. Returns
    /// `None` if the environments cannot be accessed one by one.
    fn one(&mut self, _row: usize) -> Option<&mut dyn Environment> {
        None
    }

    /// Returns the states of all environments, from [`Environment::save`], or `None` if an environment cannot provide
    /// its state.
    fn save(&mut self) -> Option<Vec<u8>> {
        None
    }

    /// Restores the saved states of the same number of environments.
    ///
    /// # Errors
    /// [`EnvError::State`] if the bytes are not the states of these environments, or they do not support saving. Some
    /// environments may then already be restored.
    fn restore(&mut self, state: &[u8]) -> Result<(), EnvError> {
        let actual = format_args!("{} bytes", state.len());
        Err(EnvError::State(Mismatch::boxed("", "environments that can be restored", actual)))
    }

    /// Checks that each number of rows equals the number of environments.
    ///
    /// # Errors
    /// [`EnvError::Observation`] with the first number that differs.
    fn expect_rows(&self, rows: &[usize]) -> Result<(), EnvError> {
        let count = self.len();
        match rows.iter().find(|rows| **rows != count) {
            None => Ok(()),
            Some(rows) => {
                let expected = format_args!("{count} rows, one per environment");
                Err(EnvError::Observation(Mismatch::boxed("", expected, rows)))
            }
        }
    }

    /// Creates rows for the observations of all environments.
    ///
    /// # Errors
    /// [`EnvError::Spec`] if they do not fit into memory.
    fn observations(&self) -> Result<Buffer, EnvError> {
        Buffer::for_nest(&self.spec().observations, self.len())
    }

    /// Creates rows for the actions of all environments.
    ///
    /// # Errors
    /// [`EnvError::Spec`] if they do not fit into memory.
    fn actions(&self) -> Result<Buffer, EnvError> {
        Buffer::for_nest(&self.spec().actions, self.len())
    }
}

impl fmt::Debug for dyn BatchEnvironment + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchEnvironment").field("len", &self.len()).field("spec", self.spec()).finish()
    }
}

pub(super) fn checked_count(count: usize) -> Result<usize, EnvError> {
    if (1..=MAX_ENVIRONMENTS).contains(&count) {
        Ok(count)
    } else {
        let expected = format_args!("1..={MAX_ENVIRONMENTS}");
        Err(EnvError::Setting(Mismatch::boxed("number of environments", expected, count)))
    }
}
