//! The contract of an adder.

use relive_env::{TimeStep, View};

use crate::{Result, RlError};

/// Writes an actor's steps as items.
///
/// For each episode, call `add_first`, then `add` until a step is LAST. The call with that step creates the last items
/// of the episode.
pub trait Adder: Send {
    /// Begins an episode with `observation`, and discards the unfinished rest of the previous episode.
    ///
    /// # Errors
    /// The observation cannot be written.
    fn add_first(&mut self, observation: View<'_>) -> Result<()>;

    /// Adds a step: `action` led to `step` and `observation`.
    ///
    /// # Errors
    /// No episode has begun ([`Order`](crate::RlError::Order)), or the step cannot be written.
    fn add(&mut self, action: View<'_>, step: TimeStep, observation: View<'_>) -> Result<()>;

    /// Like [`add`](Self::add), but with the actor's extras, such as the state of a recurrent network before the
    /// action.
    ///
    /// # Errors
    /// The errors of `add`, or the extras differ from those for which the adder was created. Most adders accept no
    /// extras.
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

    /// Ends the adder when its items are no longer needed, because the tables end with the run: it neither waits for
    /// items that are not in a table yet nor warns about them. No other call follows. Does nothing by default.
    fn discard(&mut self) {}
}
