//! The parts of the bulk path that both sides use: sockets, frames, and memory that is shared by two processes.
//! [`relive_wire::bulk`] defines the frames and their content; the server and the client define when they are sent.
//!
//! A [`Socket`] is TCP, TCP with [TLS](tls), or a Unix socket, which can also carry descriptors of [shared
//! memory](shared). [`Frames`] reads and writes frames on it.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "Relive runs on Linux only: it shares memory between processes by Linux's sealed memory files"
);

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
