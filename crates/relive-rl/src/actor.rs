//! The contracts between acting and learning.

use std::time::Duration;

use relive_env::{TimeStep, View, ViewMut};

use crate::Result;
use crate::variables::Variables;

/// Something that a run can be resumed with.
pub trait Saveable {
    /// All that its future depends on, random streams included. What comes in from outside, such as parameters of a learner in an actor,
    /// is no part of it.
    fn save(&mut self) -> Vec<u8>;

    /// Goes on where one of the same settings was when it was [saved](Self::save).
    ///
    /// # Errors
    /// [`State`](crate::RlError::State) if the bytes are not of such a one.
    fn restore(&mut self, state: &[u8]) -> Result<()>;
}

/// Acts in an environment and tells what it saw.
///
/// The order of calls in an episode: `observe_first`, then `select_action`, `observe`, `update`, again and again until the step that
/// was observed is LAST.
pub trait Actor: Saveable + Send {
    /// Chooses an action for `observation` and writes it into `action`, a row of a buffer for the environment's actions.
    ///
    /// # Errors
    /// The actor's own.
    fn select_action(&mut self, observation: View<'_>, action: ViewMut<'_>) -> Result<()>;

    /// An episode has begun with `observation`.
    ///
    /// # Errors
    /// What is observed cannot be written to the replay.
    fn observe_first(&mut self, observation: View<'_>) -> Result<()>;

    /// `action` was taken, and has led to `step` and `observation`.
    ///
    /// # Errors
    /// As [`observe_first`](Self::observe_first).
    fn observe(&mut self, action: View<'_>, step: TimeStep, observation: View<'_>) -> Result<()>;

    /// Takes newer parameters, if there are any and it is time; with `wait` in any case.
    ///
    /// # Errors
    /// The parameters cannot be had.
    fn update(&mut self, wait: bool) -> Result<()>;
}

/// Improves parameters step by step.
pub trait Learner: Saveable + Send {
    /// Learns from one batch, waiting for it as long as `patience` allows, or as it takes without. Whether there was one.
    ///
    /// # Errors
    /// There is no batch to be had, or it cannot be learned from.
    fn step_within(&mut self, patience: Option<Duration>) -> Result<bool>;

    /// Learns from one batch, waiting for it as long as it takes.
    ///
    /// # Errors
    /// As [`step_within`](Self::step_within).
    fn step(&mut self) -> Result<()> {
        self.step_within(None).map(drop)
    }

    /// Steps that were made.
    fn steps(&self) -> u64;

    /// Where its parameters are to be had.
    fn variables(&self) -> &Variables;

    /// What is to be told of the last step, by name, such as its loss.
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}

impl<S: Saveable + ?Sized> Saveable for Box<S> {
    fn save(&mut self) -> Vec<u8> {
        (**self).save()
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        (**self).restore(state)
    }
}

impl<A: Actor + ?Sized> Actor for Box<A> {
    fn select_action(&mut self, observation: View<'_>, action: ViewMut<'_>) -> Result<()> {
        (**self).select_action(observation, action)
    }

    fn observe_first(&mut self, observation: View<'_>) -> Result<()> {
        (**self).observe_first(observation)
    }

    fn observe(&mut self, action: View<'_>, step: TimeStep, observation: View<'_>) -> Result<()> {
        (**self).observe(action, step, observation)
    }

    fn update(&mut self, wait: bool) -> Result<()> {
        (**self).update(wait)
    }
}
