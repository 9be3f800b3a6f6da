//! The contract of an environment.

use std::fmt;

use crate::buffer::Action;
use crate::buffer::ViewMut;
use crate::error::{EnvError, Mismatch};
use crate::spec::EnvironmentSpec;
use crate::timestep::TimeStep;

/// A world that an agent acts in, with dm_env's rules:
///
/// * [`reset`](Self::reset) begins an episode, at any time, and answers FIRST.
/// * [`step`](Self::step) answers MID until the episode is over, then LAST.
/// * A step before the first reset, or after a LAST, is a reset: the action is not looked at, and the answer is FIRST.
///
/// The observation is written, all of it, into the row that the caller gives; it must be of a
/// [`Buffer`](crate::Buffer) for the nest [`EnvironmentSpec::observations`]. An error leaves the environment as it
/// was, unless it is [`EnvError::Failed`]; what the row then holds is unknown.
///
/// [`conformance::check`](crate::conformance::check) tests all of this.
pub trait Environment: Send {
    /// What the environment takes and gives; it does not change.
    fn spec(&self) -> &EnvironmentSpec;

    /// Begins an episode.
    ///
    /// # Errors
    /// [`EnvError::Observation`] if the row is not laid out for the observation.
    fn reset(&mut self, observation: ViewMut<'_>) -> Result<TimeStep, EnvError>;

    /// Acts once.
    ///
    /// # Errors
    /// [`EnvError::Action`] if the spec does not allow the action, otherwise as [`reset`](Self::reset).
    fn step(&mut self, action: Action<'_>, observation: ViewMut<'_>) -> Result<TimeStep, EnvError>;

    /// Writes the action of a demonstrator that knows the task, and whether there is one. Most environments have none.
    ///
    /// # Errors
    /// [`EnvError::Action`] if the row is not laid out for the action.
    fn demonstrate(&self, _action: ViewMut<'_>) -> Result<bool, EnvError> {
        Ok(false)
    }

    /// All that the future depends on, random streams included, `None` if the environment cannot tell. The bytes are
    /// for [`restore`](Self::restore) of the same version only.
    fn save(&mut self) -> Option<Vec<u8>> {
        None
    }

    /// Goes on where an environment of the same settings was when it was [saved](Self::save).
    ///
    /// # Errors
    /// [`EnvError::State`] if the bytes are not of such an environment, or the environment saves nothing.
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
