//! Listening: binding a port, its TLS and access rules, and errors from `accept`.

mod accept_errors;
mod bind;
mod entrance;

pub(crate) use accept_errors::handle_accept_error;
pub use bind::{BindError, bind};
pub use entrance::{Entrance, Entrances};
