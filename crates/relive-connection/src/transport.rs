//! The kinds of connections.

use std::fmt;

/// How a `Client` reaches its tables. The last three use the bulk path for items and batches if the server supports it
/// (`docs/protocol.md`), and gRPC for everything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Transport {
    /// Function calls, because the tables are in the same process.
    InProcess,
    /// TCP.
    Tcp,
    /// A Unix socket, because the server is a process of the same user on this machine.
    Unix,
    /// Like `Unix`, but with batches in memory that the server and the client share.
    SharedMemory,
}

impl Transport {
    /// Returns the transport in one word.
    pub fn text(self) -> &'static str {
        match self {
            Transport::InProcess => "in-process",
            Transport::Tcp => "tcp",
            Transport::Unix => "unix",
            Transport::SharedMemory => "shm",
        }
    }

    /// Returns the slowest of the transports to several servers, or TCP if there are none.
    pub fn slowest(transports: impl Iterator<Item = Transport>) -> Transport {
        let rank = |transport: &Transport| match transport {
            Transport::Tcp => 0,
            Transport::Unix => 1,
            Transport::SharedMemory => 2,
            Transport::InProcess => 3,
        };
        transports.min_by_key(rank).unwrap_or(Transport::Tcp)
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// The transports that a client may use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TransportChoice {
    /// The fastest available transport: shared memory if the server is a process of the same user on this machine,
    /// otherwise TCP.
    #[default]
    Auto,
    /// TCP, regardless of the server's location.
    Tcp,
    /// Only a Unix socket, without shared memory.
    Unix,
    /// Only shared memory.
    SharedMemory,
}

impl TransportChoice {
    /// Returns the transport in one word.
    pub fn text(self) -> &'static str {
        match self {
            TransportChoice::Auto => "auto",
            TransportChoice::Tcp => Transport::Tcp.text(),
            TransportChoice::Unix => Transport::Unix.text(),
            TransportChoice::SharedMemory => Transport::SharedMemory.text(),
        }
    }
}
