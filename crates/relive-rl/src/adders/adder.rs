//! The contract of an adder.

use relive_env::{TimeStep, View};

use crate::Result;

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

    /// Adds a step without extras: `action` led to `step` and `observation`.
    ///
    /// # Errors
    /// The errors of [`add_with_extras`](Self::add_with_extras).
    fn add(&mut self, action: View<'_>, step: TimeStep, observation: View<'_>) -> Result<()> {
        self.add_with_extras(action, step, observation, View::empty())
    }

    /// Like [`add`](Self::add), but with the actor's extras, such as the state of a recurrent network before the
    /// action.
    ///
    /// # Errors
    /// No episode has begun ([`Order`](crate::RlError::Order)), the step cannot be written, or the extras differ from
    /// those for which the adder was created.
    fn add_with_extras(
        &mut self,
        action: View<'_>,
        step: TimeStep,
        observation: View<'_>,
        extras: View<'_>,
    ) -> Result<()>;

    /// Ends the adder when its items are no longer needed, because the tables end with the run: it neither waits for
    /// items that are not in a table yet nor warns about them. No other call follows. Does nothing by default.
    fn discard(&mut self) {}
}
