//! Entrances: listeners with TLS and access rules.

use relive_transport::tls::ServerTls;
use tokio::net::TcpListener;

use crate::access::{Access, Role};

/// A listener, with the TLS and access rules for its clients. A bare [`TcpListener`] is an entrance without TLS that is
/// open to every client.
#[derive(Debug)]
pub struct Entrance {
    pub(crate) listener: TcpListener,
    pub(crate) tls: Option<ServerTls>,
    pub(crate) access: Access,
}

impl Entrance {
    /// Encrypts all connections and authenticates the server.
    #[must_use]
    pub fn tls(mut self, tls: ServerTls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Sets the access rules.
    #[must_use]
    pub fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }
}

impl From<TcpListener> for Entrance {
    fn from(listener: TcpListener) -> Self {
        Self { listener, tls: None, access: Access::Everybody(Role::Admin) }
    }
}

/// The entrances of a server. Processes on the server's machine may also connect through a Unix socket, if they belong
/// to the same user. The rules of the first entrance apply to them, except for TLS.
#[derive(Debug)]
pub struct Entrances {
    pub(crate) main: Entrance,
    pub(crate) others: Vec<Entrance>,
}

impl Entrances {
    /// Adds an entrance.
    #[must_use]
    pub fn and(mut self, entrance: Entrance) -> Self {
        self.others.push(entrance);
        self
    }
}

impl From<Entrance> for Entrances {
    fn from(main: Entrance) -> Self {
        Self { main, others: Vec::new() }
    }
}

impl From<TcpListener> for Entrances {
    fn from(listener: TcpListener) -> Self {
        Entrance::from(listener).into()
    }
}
