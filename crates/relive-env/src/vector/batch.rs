//! What one does with many environments.

use crate::buffer::Buffer;
use crate::error::{EnvError, Mismatch};
use crate::limits::MAX_ENVIRONMENTS;
use crate::spec::EnvironmentSpec;
use crate::timestep::TimeStep;

/// Environments of a kind that are stepped together, each in its row of `[N, …]` buffers.
///
/// Each keeps the rules of [`Environment`](crate::Environment) on its own: whoever has ended begins anew with the next step, in which its action
/// is not looked at, and answers FIRST. So no last observation is lost, and nobody waits for anybody.
pub trait BatchEnvironment {
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
    /// [`EnvError::Observation`] if there are not as many rows and answers as environments, or rows are laid out otherwise. If
    /// one of the environments fails, what the others did stands.
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

pub(super) fn checked_count(count: usize) -> Result<usize, EnvError> {
    if (1..=MAX_ENVIRONMENTS).contains(&count) {
        Ok(count)
    } else {
        let expected = format_args!("1..={MAX_ENVIRONMENTS}");
        Err(EnvError::Setting(Mismatch::boxed("number of environments", expected, count)))
    }
}

pub(super) fn expect_rows(count: usize, rows: &[usize]) -> Result<(), EnvError> {
    match rows.iter().find(|rows| **rows != count) {
        None => Ok(()),
        Some(rows) => {
            let expected = format_args!("{count} rows, one per environment");
            Err(EnvError::Observation(Mismatch::boxed("", expected, rows)))
        }
    }
}

/// Says which environment refused.
#[cold]
pub(super) fn in_row(row: usize, error: EnvError) -> EnvError {
    let placed = |mismatch: Box<Mismatch>| {
        let path = if mismatch.path.is_empty() {
            format!("row {row}")
        } else {
            format!("row {row}/{}", mismatch.path)
        };
        Box::new(Mismatch { path, ..*mismatch })
    };
    match error {
        EnvError::Action(mismatch) => EnvError::Action(placed(mismatch)),
        EnvError::Observation(mismatch) => EnvError::Observation(placed(mismatch)),
        EnvError::Failed(text) => EnvError::Failed(format!("row {row}: {text}")),
        other => other,
    }
}
