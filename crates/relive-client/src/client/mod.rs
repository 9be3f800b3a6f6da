//! The client: an address, a connection made when it is needed, and the calls that need no state of their own.

mod address;
mod calls;
mod connect;
mod data;
mod info;
mod options;
mod status;

pub use connect::Client;
pub use info::{ServerInfo, StateId};
pub use options::ClientOptions;
pub use status::{ChunkTotals, ServerStatus, TableStatus, Waiter, WaiterOperation};

pub(crate) use connect::Stub;
