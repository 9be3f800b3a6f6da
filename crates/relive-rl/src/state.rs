//! Saved states, from which a run can be resumed. The same list of fields is used for writing and for reading.

use relive_env::State;

use crate::{Result, RlError};

/// A part of a run whose state can be saved and restored.
pub trait Saveable {
    /// Returns the complete state, including random streams. External inputs, such as a learner's weights in a policy,
    /// are not included.
    fn save(&mut self) -> Vec<u8>;

    /// Resumes from the [saved](Self::save) state of an object with the same settings.
    ///
    /// # Errors
    /// [`State`](crate::RlError::State) if the bytes do not encode the state of this part.
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

/// Serializes the fields that `visit` writes.
pub(crate) fn save(visit: impl FnOnce(&mut State<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    visit(&mut State::writer(&mut bytes));
    bytes
}

/// Restores the fields through `visit` from `bytes`, the state of `what`.
///
/// # Errors
/// [`State`](crate::RlError::State): bytes are missing, invalid or left over.
pub fn restore(what: &'static str, bytes: &[u8], visit: impl FnOnce(&mut State<'_>)) -> Result<()> {
    let mut state = State::reader(bytes);
    visit(&mut state);
    state.defect().map_or(Ok(()), |defect| Err(RlError::state(what, format_args!("it has {defect}"))))
}
