//! Saved states: one list of fields serves writing and reading.

use relive_env::State;

use crate::{Result, RlError};

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
