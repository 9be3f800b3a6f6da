//! Saved states: what a run can be resumed with. One list of fields serves writing and reading.

use relive_env::State;

use crate::{Result, RlError};

/// Something that a run can be resumed with.
pub trait Saveable {
    /// All that its future depends on, random streams included. What comes in from outside, such as a learner's
    /// weights in a policy, is no part of it.
    fn save(&mut self) -> Vec<u8>;

    /// Goes on where one of the same settings was when it was [saved](Self::save).
    ///
    /// # Errors
    /// [`State`](crate::RlError::State) if the bytes are not of such a one.
    fn restore(&mut self, state: &[u8]) -> Result<()>;
}

impl<S: Saveable + ?Sized> Saveable for Box<S> {
    fn save(&mut self) -> Vec<u8> {
        (**self).save()
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        (**self).restore(state)
    }
}

/// What `visit` writes down.
pub(crate) fn save(visit: impl FnOnce(&mut State<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    visit(&mut State::writer(&mut bytes));
    bytes
}

/// Has `visit` fill in what is in `bytes`, the state of `what`.
pub(crate) fn restore(what: &'static str, bytes: &[u8], visit: impl FnOnce(&mut State<'_>)) -> Result<()> {
    let mut state = State::reader(bytes);
    visit(&mut state);
    state.finish().map_err(|error| RlError::state(what, error))
}
