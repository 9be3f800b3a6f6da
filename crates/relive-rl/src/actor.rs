//! The contracts between acting and learning.

use relive_env::{TimeStep, View, ViewMut};

use crate::Result;

/// Acts in an environment and tells what it saw.
///
/// The order of calls in an episode: `observe_first`, then `select_action`, `observe`, `update`, again and again until the step that
/// was observed is LAST.
pub trait Actor: Send {
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
pub trait Learner: Send {
    /// Learns from one batch, waiting for it as long as it takes.
    ///
    /// # Errors
    /// There is no batch to be had, or it cannot be learned from.
    fn step(&mut self) -> Result<()>;

    /// Steps that were made.
    fn steps(&self) -> u64;
}
