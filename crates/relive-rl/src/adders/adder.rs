//! The contract of an adder.

use relive_env::{TimeStep, View};

use crate::{Result, RlError};

/// Writes the steps of an actor as items.
///
/// The order of calls in an episode: `add_first`, then `add` until its step is LAST, with which the episode's last
/// items are made.
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

    /// [`add`](Self::add) with what the actor has besides, such as the state of a recurrent network before the action.
    ///
    /// # Errors
    /// As `add`, and for other extras than those that the adder was made for; most are for none.
    fn add_with_extras(
        &mut self,
        action: View<'_>,
        step: TimeStep,
        observation: View<'_>,
        extras: View<'_>,
    ) -> Result<()> {
        match extras.num_leaves() {
            0 => self.add(action, step, observation),
            leaves => Err(RlError::setting("extras", format!("{leaves} leaves"), "none at all")),
        }
    }
}
