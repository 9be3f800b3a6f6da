//! Endpoints: addresses with TLS and tokens.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use relive_engine::Engine;
use relive_server::access::{Access, Role, Tokens};
use relive_server::tls::{Identity, ServerTls, TlsError};
use relive_server::{Entrance, Entrances, ServerOptions};
use tokio::net::TcpListener;

use crate::address::{Address, Reserved};
use crate::{Error, ErrorKind, Result};

/// An address, with its TLS settings and the tokens that clients need. A plain address, in any form that [`Address`]
/// accepts, is open to every client that can reach it, without TLS.
///
/// ```no_run
/// use relive_host::Endpoint;
/// use relive_server::access::Role;
///
/// let endpoint = Endpoint::new("*:8000")
///     .tls_files("server.pem", "server.key", None)
///     .token_file("tokens")
///     .open_entrance("10.0.0.7:8001", Role::Write);
/// ```
#[derive(Debug, Clone)]
pub struct Endpoint {
    address: Address,
    tls: Option<Tls>,
    access: Option<AccessSource>,
    open: Option<(Address, Role)>,
}

#[derive(Debug, Clone)]
enum Tls {
    Ready(ServerTls),
    Files { cert: PathBuf, key: PathBuf, client_ca: Option<PathBuf> },
}

#[derive(Clone)]
enum AccessSource {
    Ready(Access),
    File(PathBuf),
    Token { name: String, role: Role, token: String },
}

/// Keeps tokens out of logs.
impl fmt::Debug for AccessSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready(access) => access.fmt(f),
            Self::File(path) => path.fmt(f),
            Self::Token { name, role, .. } => {
                f.debug_struct("Token").field("name", name).field("role", role).finish_non_exhaustive()
            }
        }
    }
}

impl Endpoint {
    /// Gives every client that can reach `address` full access.
    pub fn new(address: impl Into<Address>) -> Self {
        Self { address: address.into(), tls: None, access: None, open: None }
    }

    /// Encrypts all connections and authenticates the server to its clients; see `docs/security.md`.
    #[must_use]
    pub fn tls(mut self, tls: ServerTls) -> Self {
        self.tls = Some(Tls::Ready(tls));
        self
    }

    /// Like [`tls`](Self::tls), but with PEM files that are read when the server starts: the server's certificate
    /// chain, its key, and, if clients must present certificates, the authorities that may have signed them.
    #[must_use]
    pub fn tls_files(
        mut self,
        cert: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
        client_ca: Option<PathBuf>,
    ) -> Self {
        self.tls = Some(Tls::Files { cert: cert.into(), key: key.into(), client_ca });
        self
    }

    /// Sets the access rules.
    #[must_use]
    pub fn access(mut self, access: Access) -> Self {
        self.access = Some(AccessSource::Ready(access));
        self
    }

    /// Requires one of the tokens in the given file; see [`Tokens::open`]. A running server reloads the file when it
    /// changes.
    #[must_use]
    pub fn token_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.access = Some(AccessSource::File(path.into()));
        self
    }

    /// Requires the given token, which grants `role`. Errors refer to the token by its name.
    #[must_use]
    pub fn token(mut self, name: impl Into<String>, role: Role, token: impl Into<String>) -> Self {
        self.access = Some(AccessSource::Token { name: name.into(), role, token: token.into() });
        self
    }

    /// Opens a second address without TLS or tokens, for dm-reverb's clients, which support neither. Clients at this
    /// address have `role`.
    #[must_use]
    pub fn open_entrance(mut self, address: impl Into<Address>, role: Role) -> Self {
        self.open = Some((address.into(), role));
        self
    }

    /// Starts listening. Clients receive answers once the result is [served](Bound::serve).
    ///
    /// # Errors
    /// An address cannot be bound, or certificates or tokens are unusable.
    pub async fn bind(self) -> Result<Bound> {
        self.check().await?.listen()
    }

    /// Reads certificates and tokens, and binds fixed ports.
    pub(crate) async fn check(self) -> Result<Checked> {
        let tls = self.tls.map(Tls::read).transpose().map_err(unusable)?;
        let access = self.access.map(AccessSource::read).transpose()?;
        let main = self.address.reserve("the address of a server").await?;
        let open = match self.open {
            Some((address, role)) => Some((address.reserve("the open entrance").await?, role)),
            None => None,
        };
        Ok(Checked { main, tls, access, open })
    }
}

impl<A: Into<Address>> From<A> for Endpoint {
    fn from(address: A) -> Self {
        Self::new(address)
    }
}

impl Tls {
    fn read(self) -> Result<ServerTls, TlsError> {
        match self {
            Self::Ready(tls) => Ok(tls),
            Self::Files { cert, key, client_ca } => {
                ServerTls::with_files(Identity::from_files(&cert, &key)?, client_ca.as_deref())
            }
        }
    }
}

impl AccessSource {
    fn read(self) -> Result<Access> {
        let tokens = match self {
            Self::Ready(access) => return Ok(access),
            Self::File(path) => Tokens::open(path).map_err(unusable)?,
            Self::Token { name, role, token } => Tokens::one(&name, role, &token).map_err(unusable)?,
        };
        Ok(Access::Tokens(Arc::new(tokens)))
    }
}

fn unusable(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::Security, error)
}

/// A checked endpoint, ready to listen.
pub(crate) struct Checked {
    main: Reserved,
    tls: Option<ServerTls>,
    access: Option<Access>,
    open: Option<(Reserved, Role)>,
}

impl Checked {
    pub(crate) fn listen(self) -> Result<Bound> {
        let (listener, address) = listening(self.main)?;
        let entrance = self.tls.into_iter().fold(Entrance::from(listener), Entrance::tls);
        let mut entrances = vec![self.access.into_iter().fold(entrance, Entrance::access)];
        let mut open_address = None;
        if let Some((reserved, role)) = self.open {
            let (listener, address) = listening(reserved)?;
            tracing::warn!(target: "relive::server", %address, %role, "listening without TLS and tokens: \
                everyone who can connect has access");
            entrances.push(Entrance::from(listener).access(Access::Everybody(role)));
            open_address = Some(address);
        }
        Ok(Bound { entrances, address, open_address })
    }
}

fn listening(reserved: Reserved) -> Result<(TcpListener, SocketAddr)> {
    let listener = reserved.listen()?;
    let address = listener.local_addr().map_err(|error| Error::new(ErrorKind::Bind, error))?;
    Ok((listener, address))
}

/// An [`Endpoint`] that listens: its address is known before the tables exist.
#[derive(Debug)]
pub struct Bound {
    /// At least one entrance; the first entrance's rules also apply to processes on this machine.
    entrances: Vec<Entrance>,
    address: SocketAddr,
    open_address: Option<SocketAddr>,
}

impl Bound {
    /// Returns the address to which clients connect.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address of the [entrance without TLS or tokens](Endpoint::open_entrance), if there is one.
    #[must_use]
    pub fn open_address(&self) -> Option<SocketAddr> {
        self.open_address
    }

    /// Combines two endpoints for the same tables; the combined endpoint has the address of `self`.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.entrances.extend(other.entrances);
        self
    }

    /// Serves existing tables while the future is polled.
    ///
    /// # Errors
    /// See [`relive_server::serve`].
    pub fn serve(
        self,
        engine: Engine,
        options: ServerOptions,
        shutdown: impl Future<Output = ()> + Send,
    ) -> impl Future<Output = std::io::Result<()>> + Send {
        let mut entrances = self.entrances.into_iter();
        let first = Entrances::from(entrances.next().expect("an endpoint has one"));
        relive_server::serve(entrances.fold(first, Entrances::and), engine, options, shutdown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_never_printed() {
        let shown = format!("{:?}", Endpoint::new("*:0").token("a name", Role::Write, "a secret"));
        assert!(shown.contains("a name") && !shown.contains("a secret"), "{shown}");
    }
}
