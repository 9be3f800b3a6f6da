//! Accepting connections.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use relive_transport::Socket;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use super::session::session;
use crate::error::{Error, Result};
use crate::peers::{Network, NetworkOptions};
use crate::store::Reader;

/// The maximum number of simultaneous connections: one for each rank of other machines, plus lost connections that have
/// not been noticed yet.
const MAX_CONNECTIONS: usize = 4096;
/// How long a TLS handshake may take.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);
/// Pause after the system has failed to accept a connection.
const AFTER_REFUSAL: Duration = Duration::from_millis(100);

/// Serves the rows of a store to [peers](crate::Peer) until it is dropped. Keeps the network's threads alive.
#[derive(Debug)]
pub struct RowServer {
    address: SocketAddr,
    accepting: AbortHandle,
    _network: Network,
}

impl Drop for RowServer {
    fn drop(&mut self) {
        // The connections end with the accepting task, and so do their pins.
        self.accepting.abort();
    }
}

impl RowServer {
    /// Serves the rows of the store that `reader` reads, of its own rank only, at the given address; port 0 picks a
    /// free port.
    ///
    /// # Errors
    /// The address is invalid or unavailable.
    pub fn start(network: &Network, reader: &Reader, address: impl ToSocketAddrs) -> Result<Self> {
        let refused = |error| Error::system("listen for other ranks", error);
        let listener = std::net::TcpListener::bind(address).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let _context = network.handle().enter();
        let listener = TcpListener::from_std(listener).map_err(refused)?;
        let options = network.options().clone();
        if options.token.is_none() && options.server_tls.is_none() && !address.ip().is_loopback() {
            tracing::warn!(%address, "listening without TLS and tokens: everyone who can connect has access");
        }
        let accepting = network.handle().spawn(accept(listener, options, reader.alone())).abort_handle();
        Ok(Self { address, accepting, _network: network.clone() })
    }

    /// Returns the address at which the server listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn accept(listener: TcpListener, options: NetworkOptions, reader: Reader) {
    let options = Arc::new(options);
    let mut sessions = JoinSet::new();
    loop {
        while sessions.try_join_next().is_some() {}
        if sessions.len() >= MAX_CONNECTIONS {
            sessions.join_next().await;
            continue;
        }
        match listener.accept().await {
            Ok((socket, _)) => {
                sessions.spawn(one(socket, Arc::clone(&options), reader.clone()));
            }
            // Too many open files, or a connection that has already closed.
            Err(_) => tokio::time::sleep(AFTER_REFUSAL).await,
        }
    }
}

/// Serves one connection. Its errors are sent to the other side; no code on this side could react to them.
async fn one(socket: TcpStream, options: Arc<NetworkOptions>, reader: Reader) {
    let socket = match &options.server_tls {
        None => Socket::over_tcp(socket),
        Some(tls) => {
            let handshake = tokio::time::timeout(HANDSHAKE_PATIENCE, Socket::accept_tls(socket, tls));
            handshake.await.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))
        }
    };
    if let Ok(socket) = socket {
        session(socket, options.token.as_deref(), &reader).await;
    }
}
