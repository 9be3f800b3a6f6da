//! What the bulk path consists of on both of its sides: sockets, frames, and memory that two processes share. Which
//! frames there are and what is in them is [`relive_wire::bulk`]'s; when they are sent is the server's and the
//! client's.
//!
//! A [`Socket`] is TCP, TCP with [TLS](tls), or a Unix socket; over the last also descriptors of
//! [shared memory](shared) travel. [`Frames`] reads and writes whole frames on it.

mod frame;
mod limits;
mod local;
pub mod shared;
mod socket;
pub mod tls;
mod token;

pub use frame::{FrameWriter, Frames, ReadError};
pub use local::{LocalAddress, LocalListener, connect_local, host_id, is_own_peer};
pub use socket::{Purpose, Socket};
pub use token::is_same_token;
