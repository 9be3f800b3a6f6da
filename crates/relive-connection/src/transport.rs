//! The kinds of connection.

use std::fmt;

/// How a `Client` reaches its tables. Over the last three, items and batches travel on the bulk path where
/// the server has one (`docs/protocol.md`), and everything else by gRPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Transport {
    /// Calls of functions: the tables are in the same process.
    InProcess,
    /// TCP.
    Tcp,
    /// A Unix socket: the server is a process of this machine and user.
    Unix,
    /// The same, and batches lie in memory that server and client share.
    SharedMemory,
}

impl Transport {
    /// The transport in one word.
    pub fn text(self) -> &'static str {
        match self {
            Transport::InProcess => "in-process",
            Transport::Tcp => "tcp",
            Transport::Unix => "unix",
            Transport::SharedMemory => "shm",
        }
    }

    /// The slowest of the transports to many servers; TCP to none.
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

/// Which way to a server a client may take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TransportChoice {
    /// The fastest there is: shared memory if the server is a process of this machine and user, otherwise TCP.
    #[default]
    Auto,
    /// TCP, wherever the server is.
    Tcp,
    /// A Unix socket or nothing.
    Unix,
    /// Shared memory or nothing.
    SharedMemory,
}

impl TransportChoice {
    /// The transport in one word.
    pub fn text(self) -> &'static str {
        match self {
            TransportChoice::Auto => "auto",
            TransportChoice::Tcp => Transport::Tcp.text(),
            TransportChoice::Unix => Transport::Unix.text(),
            TransportChoice::SharedMemory => Transport::SharedMemory.text(),
        }
    }
}
