//! Stores of other machines, whose rows come over a network. What goes to and fro is in `docs/protocol.md`.

mod link;
pub(crate) mod messages;
mod network;
mod peer;

pub(crate) use link::{Asked, Body, Lease};
pub use network::{Network, NetworkOptions};
pub use peer::Peer;
