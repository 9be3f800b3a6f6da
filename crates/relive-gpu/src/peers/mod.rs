//! Stores on other machines, whose rows are read over a network. `docs/protocol.md` describes the messages.

mod link;
pub(crate) mod messages;
mod network;
mod peer;

pub(crate) use link::{Body, Lease, PendingAnswer};
pub use network::{Network, NetworkOptions};
pub use peer::Peer;
