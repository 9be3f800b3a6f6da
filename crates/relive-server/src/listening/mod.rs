//! Listening: binding a port, what is asked of those who come in there, and errors of accepting.

mod accept_errors;
mod bind;
mod entrance;

pub(crate) use accept_errors::survive;
pub use bind::{BindError, bind};
pub use entrance::{Entrance, Entrances};
