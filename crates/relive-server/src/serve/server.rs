//! The accept loop and the shutdown of a server.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use relive_engine::{Engine, LogThrottle};
use relive_transport::LocalListener;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::connection::{Accepted, IncomingConnection};
use super::workers::Workers;
use crate::access::Access;
use crate::listening::{Entrance, Entrances, handle_accept_error};
use crate::monitor::Monitor;
use crate::options::ServerOptions;
use crate::services::{LocalSocket, Services};

/// Serves `engine` at `entrances`, such as a bound listener, until `shutdown` is ready, and then shuts down in an
/// orderly way.
///
/// The server's own threads ([`ServerOptions::workers`]) serve the connections; the calling task only accepts them. At
/// the end, the engine is [shut down](Engine::shut_down) and writes a last checkpoint if it is configured to; its
/// tables stay readable.
///
/// # Errors
/// The listener is broken, threads cannot be started, or the last checkpoint cannot be written. Failures of single
/// connections are logged, and do not affect other connections.
pub async fn serve(
    entrances: impl Into<Entrances>,
    engine: Engine,
    options: ServerOptions,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let entrances = entrances.into();
    let _followers = follow_tokens(&entrances);
    let (stop, stopping) = watch::channel(false);
    let (local, local_listener) = local();
    let services = Services::new(engine.clone(), local, stopping.clone(), options.max_bytes_in_flight);
    let mut workers = Workers::start(options.workers)?;
    let monitor = Monitored(options.monitor.unwrap_or_default());
    monitor.0.begin(services.clone());
    let listeners = Listeners { entrances, local: local_listener };
    let acceptor = Acceptor { services, stopping, max_connections: options.max_connections };
    let accepted = acceptor.accept_until(&listeners, &mut workers, shutdown).await;
    drop(listeners);
    monitor.0.stop();
    tracing::info!(connections = workers.connections(), "stopping");
    // Closed tables do not change, so the last checkpoint is written while the connections are being drained.
    let last = engine.shut_down();
    stop.send_replace(true);
    workers.drain(options.drain_timeout).await;
    let saved = match last {
        Some(last) => last.await.map(drop).map_err(io::Error::other),
        None => Ok(()),
    };
    drop(monitor);
    accepted.and(saved)
}

/// A monitor that shows a server. When this value is dropped, the server has ended; it may have been cancelled.
struct Monitored(Monitor);

impl Drop for Monitored {
    fn drop(&mut self) {
        self.0.stop();
        self.0.end();
    }
}

/// Reads token files again when they change, until the returned value is dropped.
fn follow_tokens(entrances: &Entrances) -> JoinSet<()> {
    let mut followers = JoinSet::new();
    for entrance in entrances.others.iter().chain([&entrances.main]) {
        if let Access::Tokens(tokens) = &entrance.access {
            let tokens = Arc::clone(tokens);
            followers.spawn(async move { tokens.follow().await });
        }
    }
    followers
}

/// The listeners of a server.
struct Listeners {
    entrances: Entrances,
    /// The listener for processes on this machine, if the system supports Unix sockets.
    local: Option<LocalListener>,
}

impl Listeners {
    async fn accept(&self) -> io::Result<IncomingConnection> {
        let local = async {
            match &self.local {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        let main = &self.entrances.main;
        tokio::select! {
            accepted = main.listener.accept() => by_tcp(accepted?, main),
            (accepted, entrance) = accept_any(&self.entrances.others) => by_tcp(accepted?, entrance),
            accepted = local => Ok(IncomingConnection {
                socket: Accepted::Local(accepted?),
                peer: Arc::from("this machine"),
                access: main.access.clone(),
            }),
        }
    }
}

type AcceptResult = io::Result<(TcpStream, SocketAddr)>;

/// Returns the next connection at any of `entrances`, or stays pending forever if there are none.
async fn accept_any(entrances: &[Entrance]) -> (AcceptResult, &Entrance) {
    poll_fn(|cx| {
        for entrance in entrances {
            if let Poll::Ready(accepted) = entrance.listener.poll_accept(cx) {
                return Poll::Ready((accepted, entrance));
            }
        }
        Poll::Pending
    })
    .await
}

fn by_tcp((socket, peer): (TcpStream, SocketAddr), entrance: &Entrance) -> io::Result<IncomingConnection> {
    let socket = Accepted::Tcp(socket.into_std()?, entrance.tls.clone());
    Ok(IncomingConnection { socket, peer: Arc::from(peer.to_string()), access: entrance.access.clone() })
}

/// Returns the local socket for processes on this machine. Without this socket, such processes connect over TCP.
fn local() -> (LocalSocket, Option<LocalListener>) {
    match LocalSocket::listen() {
        Ok((local, listener)) => (local, Some(listener)),
        Err(error) => {
            tracing::debug!(%error, "serving processes on this machine over TCP only");
            (LocalSocket::default(), None)
        }
    }
}

/// Handles new connections.
struct Acceptor {
    services: Services,
    stopping: watch::Receiver<bool>,
    max_connections: usize,
}

impl Acceptor {
    async fn accept_until(
        &self,
        listeners: &Listeners,
        workers: &mut Workers,
        shutdown: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let mut shutdown = std::pin::pin!(shutdown);
        let mut refusals = LogThrottle::default();
        loop {
            tokio::select! {
                () = &mut shutdown => return Ok(()),
                accepted = listeners.accept() => match accepted {
                    Ok(incoming) if workers.connections() >= self.max_connections => {
                        self.services.count_refusal();
                        self.log_refusal(&mut refusals, &incoming.peer);
                    }
                    Ok(incoming) => workers.serve(incoming, self.services.clone(), self.stopping.clone()),
                    Err(error) => handle_accept_error(error).await?,
                },
                () = workers.reap() => {}
            }
        }
    }

    fn log_refusal(&self, refusals: &mut LogThrottle, peer: &str) {
        if let Some(refused) = refusals.note(Instant::now()) {
            tracing::warn!(
                last = peer,
                refused,
                "refusing connections: the limit of {} open connections (max_connections) is reached",
                self.max_connections
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use relive_table::TableConfig;

    use super::*;
    use crate::bind;

    #[tokio::test]
    async fn a_cancelled_server_no_longer_keeps_its_tables_alive() {
        let engine = Engine::builder().table(TableConfig::new("t")).build().unwrap();
        let (monitor, listener) = (Monitor::new(), bind(([127, 0, 0, 1], 0).into()).await.unwrap());
        let options = ServerOptions::default().workers(1).monitor(monitor.clone());
        let mut serving = Box::pin(serve(listener, engine, options, std::future::pending()));
        let state = poll_fn(|cx| Poll::Ready(serving.as_mut().poll(cx).is_pending())).await;
        assert!(state && monitor.services().is_some());
        drop(serving);
        assert!(monitor.services().is_none());
    }
}
