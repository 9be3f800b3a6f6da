//! The contract of an adder.

use relive_env::{TimeStep, View};

use crate::Result;

/// Writes the steps of an actor as items.
///
/// The order of calls in an episode: `add_first`, then `add` until its step is LAST, with which the episode's last items are made.
pub trait Adder: Send {
    /// An episode has begun with `observation`. What is left of the one before is dropped.
    ///
    /// # Errors
    /// It cannot be written.
    fn add_first(&mut self, observation: View<'_>) -> Result<()>;

    /// `action` has led to `step` and `observation`.
    ///
    /// # Errors
    /// [`Order`](crate::RlError::Order) without an episode that has begun; it cannot be written.
    fn add(&mut self, action: View<'_>, step: TimeStep, observation: View<'_>) -> Result<()>;
}
