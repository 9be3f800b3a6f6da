//! What one does with many environments.

use std::fmt;

use crate::buffer::Buffer;
use crate::environment::Environment;
use crate::error::{EnvError, Mismatch};
use crate::limits::MAX_ENVIRONMENTS;
use crate::spec::EnvironmentSpec;
use crate::timestep::TimeStep;

/// Environments of a kind that are stepped together, each in its row of `[N, …]` buffers.
///
/// Each keeps the rules of [`Environment`](crate::Environment) on its own: whoever has ended begins anew with the
/// next step, in which its action is not looked at, and answers FIRST. So no last observation is lost, and nobody
/// waits for anybody.
pub trait BatchEnvironment: Send {
    /// How many there are.
    fn len(&self) -> usize;

    /// Whether there are none; there never are.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What each of them takes and gives.
    fn spec(&self) -> &EnvironmentSpec;

    /// Begins an episode in each.
    ///
    /// # Errors
    /// [`EnvError::Observation`] if there are not as many rows and answers as environments, or rows are laid out
    /// otherwise. If one of the environments fails, what the others did stands.
    fn reset(&mut self, observations: &mut Buffer, answers: &mut [TimeStep]) -> Result<(), EnvError>;

    /// Acts once in each: row `i` of `actions` in environment `i`.
    ///
    /// # Errors
    /// [`EnvError::Action`] with the row of an action that is not allowed, otherwise as [`reset`](Self::reset).
    fn step(
        &mut self,
        actions: &Buffer,
        observations: &mut Buffer,
        answers: &mut [TimeStep],
    ) -> Result<(), EnvError>;

    /// The environment of a row, to look ahead in: whoever steps in it restores it to where it was. None where they
    /// are had together only.
    fn one(&mut self, _row: usize) -> Option<&mut dyn Environment> {
        None
    }

    /// The states of all, as [`Environment::save`] tells them; `None` if one of them cannot tell.
    fn save(&mut self) -> Option<Vec<u8>> {
        None
    }

    /// Goes on where as many environments were when they were saved.
    ///
    /// # Errors
    /// [`EnvError::State`] if the bytes are not of these, or they save nothing; some of the environments may then be
    /// restored.
    fn restore(&mut self, state: &[u8]) -> Result<(), EnvError> {
        let actual = format_args!("{} bytes", state.len());
        Err(EnvError::State(Mismatch::boxed("", "environments that can be restored", actual)))
    }

    /// Whether these are as many rows as there are environments.
    ///
    /// # Errors
    /// [`EnvError::Observation`] with the number that is another.
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

    /// Rows for the observations of all.
    ///
    /// # Errors
    /// [`EnvError::Spec`] if they fit no memory.
    fn observations(&self) -> Result<Buffer, EnvError> {
        Buffer::for_nest(&self.spec().observations, self.len())
    }

    /// Rows for the actions of all.
    ///
    /// # Errors
    /// [`EnvError::Spec`] if they fit no memory.
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
