//! The client: an address, a connection made when it is needed, and the calls that need no state of their own.

mod address;
mod calls;
mod channel;
mod codecs;
mod connect;
mod data;
mod info;
mod items;
mod local;
mod many;
mod memory;
mod names;
mod operate;
mod options;
mod remote;
mod returned;
mod status;
mod transport;
mod waits;

pub use connect::Client;
pub use info::{ServerInfo, StateId};
pub use items::{ItemInfo, ItemPage};
pub use memory::{ChunkTotals, MemoryStatus};
pub use options::ClientOptions;
pub use status::{ServerStatus, TableStatus, Waiter, WaiterOperation};
pub use transport::{Transport, TransportChoice};
pub use waits::Waits;

pub(crate) use channel::{Channels, GrpcChannel, TlsTarget};
pub(crate) use connect::Connection;
pub(crate) use local::Local;
pub(crate) use names::{Proposal, Proposals};
pub(crate) use remote::{Remote, Stub};
