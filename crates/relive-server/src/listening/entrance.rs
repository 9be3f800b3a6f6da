//! Where clients come in, and what is asked of them there.

use relive_transport::tls::ServerTls;
use tokio::net::TcpListener;

use crate::access::{Access, Role};

/// A listener, and what is asked of those who come in there. A bare [`TcpListener`] is an entrance that is open to
/// everybody, without TLS.
#[derive(Debug)]
pub struct Entrance {
    pub(crate) listener: TcpListener,
    pub(crate) tls: Option<ServerTls>,
    pub(crate) access: Access,
}

impl Entrance {
    /// Everything that goes over it is enciphered, and the server proves who it is.
    #[must_use]
    pub fn tls(mut self, tls: ServerTls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Who may do what.
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

/// The entrances of a server. Processes of its machine, which may also come by a Unix socket, are asked for what the
/// first one asks for, but for TLS: only processes of the same user get in there.
#[derive(Debug)]
pub struct Entrances {
    pub(crate) main: Entrance,
    pub(crate) others: Vec<Entrance>,
}

impl Entrances {
    /// Adds another one.
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
