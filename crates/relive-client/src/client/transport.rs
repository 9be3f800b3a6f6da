//! The kinds of connection.

use std::fmt;

/// How a [`Client`](crate::Client) reaches its tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Transport {
    /// gRPC over TCP.
    Tcp,
    /// Calls of functions: the tables are in the same process.
    InProcess,
}

impl Transport {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Transport::Tcp => "tcp",
            Transport::InProcess => "in-process",
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}
