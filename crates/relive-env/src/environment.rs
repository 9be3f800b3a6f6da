//! The contract of an environment.

use std::fmt;

use crate::buffer::Action;
use crate::buffer::ViewMut;
use crate::error::{EnvError, Mismatch};
use crate::spec::EnvironmentSpec;
use crate::timestep::TimeStep;

/// A world in which an agent acts, with dm_env's rules:
///
/// * [`reset`](Self::reset) starts an episode, at any time, and returns FIRST.
/// * [`step`](Self::step) returns MID until the episode is over, then LAST.
/// * A step before the first reset, or after a LAST, is a reset: it ignores the action and returns FIRST.
///
/// The environment writes the whole observation to the row that the caller provides, which must belong to a
/// [`Buffer`](crate::Buffer) for the nest [`EnvironmentSpec::observations`]. After an error, the contents of the row
/// are unspecified; the environment is unchanged, unless the error is [`EnvError::Failed`].
///
/// [`conformance::check`](crate::conformance::check) tests all these rules.
pub trait Environment: Send {
    /// Returns the specs of the environment's inputs and outputs, which never change.
    fn spec(&self) -> &EnvironmentSpec;

    /// Starts an episode.
    ///
    /// # Errors
    /// [`EnvError::Observation`] if the row does not have the observation's layout.
    fn reset(&mut self, observation: ViewMut<'_>) -> Result<TimeStep, EnvError>;

    /// Takes an action.
    ///
    /// # Errors
    /// [`EnvError::Action`] if the spec does not allow the action, and the errors of [`reset`](Self::reset).
    fn step(&mut self, action: Action<'_>, observation: ViewMut<'_>) -> Result<TimeStep, EnvError>;

    /// Writes the action of a demonstrator that has mastered the task. Returns whether the environment has a
    /// demonstrator; most environments have none.
    ///
    /// # Errors
    /// [`EnvError::Action`] if the row does not have the action's layout.
    fn demonstrate(&self, _action: ViewMut<'_>) -> Result<bool, EnvError> {
        Ok(false)
    }

    /// Returns the state on which the future depends, including random streams, or `None` if the environment cannot
    /// provide it. Only [`restore`](Self::restore) in the same version can read the bytes.
    fn save(&mut self) -> Option<Vec<u8>> {
        None
    }

    /// Restores the [saved](Self::save) state of an environment with the same settings.
    ///
    /// # Errors
    /// [`EnvError::State`] if the bytes do not encode the state of an environment with the same settings, or the
    /// environment does not support saving.
    fn restore(&mut self, state: &[u8]) -> Result<(), EnvError> {
        let actual = format_args!("{} bytes", state.len());
        Err(EnvError::State(Mismatch::boxed("", "an environment that can be restored", actual)))
    }
}

impl fmt::Debug for dyn Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Environment").field(self.spec()).finish()
    }
}

impl<E: Environment + ?Sized> Environment for Box<E> {
    fn spec(&self) -> &EnvironmentSpec {
        (**self).spec()
    }

    fn reset(&mut self, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        (**self).reset(observation)
    }

    fn step(&mut self, action: Action<'_>, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        (**self).step(action, observation)
    }

    fn demonstrate(&self, action: ViewMut<'_>) -> Result<bool, EnvError> {
        (**self).demonstrate(action)
    }

    fn save(&mut self) -> Option<Vec<u8>> {
        (**self).save()
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), EnvError> {
        (**self).restore(state)
    }
}
