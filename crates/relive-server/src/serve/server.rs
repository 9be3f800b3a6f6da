//! The accept loop and the shutdown of a server.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;

use relive_engine::Engine;
use relive_transport::LocalListener;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::connection::{Accepted, Visitor};
use super::workers::Workers;
use crate::access::Access;
use crate::listening::{Entrance, Entrances, survive};
use crate::log_throttle::LogThrottle;
use crate::options::ServerOptions;
use crate::services::{Local, Services};

/// Serves `engine` at `entrances`, such as a bound listener, until `shutdown` is ready, then shuts down in order.
///
/// The server's own threads ([`ServerOptions::workers`]) serve the connections; the calling task only accepts them. At
/// the end, the engine is [shut down](Engine::shut_down) and writes a last checkpoint if it is configured to; its
/// tables stay readable.
///
/// # Errors
/// The listener is broken, threads cannot be started, or the last checkpoint cannot be written. Failures of single
/// connections are logged and do not affect others.
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
    let monitor = options.monitor.unwrap_or_default();
    monitor.begin(services.clone());
    let listeners = Listeners { entrances, local: local_listener };
    let visitors = Visitors { services, stopping, max_connections: options.max_connections };
    let accepted = visitors.accept_until(&listeners, &mut workers, shutdown).await;
    drop(listeners);
    monitor.stop();
    tracing::info!(connections = workers.connections(), "stopping");
    // Closed tables do not change: the last checkpoint is written while connections end.
    let last = engine.shut_down();
    stop.send_replace(true);
    workers.drain(options.drain_timeout).await;
    let saved = match last {
        Some(last) => last.await.map(drop).map_err(io::Error::other),
        None => Ok(()),
    };
    monitor.end();
    accepted.and(saved)
}

/// Reads token files again when they change, while the result lives.
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
    /// For processes on this machine, if the system has such sockets.
    local: Option<LocalListener>,
}

impl Listeners {
    async fn accept(&self) -> io::Result<Visitor> {
        let local = async {
            match &self.local {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        let main = &self.entrances.main;
        tokio::select! {
            accepted = main.listener.accept() => by_tcp(accepted?, main),
            (accepted, entrance) = any(&self.entrances.others) => by_tcp(accepted?, entrance),
            accepted = local => Ok(Visitor {
                socket: Accepted::Local(accepted?),
                peer: Arc::from("this machine"),
                access: main.access.clone(),
            }),
        }
    }
}

type Came = io::Result<(TcpStream, SocketAddr)>;

/// The next connection at any of `entrances`; pending forever if there are none.
async fn any(entrances: &[Entrance]) -> (Came, &Entrance) {
    poll_fn(|cx| {
        for entrance in entrances {
            if let Poll::Ready(came) = entrance.listener.poll_accept(cx) {
                return Poll::Ready((came, entrance));
            }
        }
        Poll::Pending
    })
    .await
}

fn by_tcp((socket, peer): (TcpStream, SocketAddr), entrance: &Entrance) -> io::Result<Visitor> {
    let socket = Accepted::Tcp(socket.into_std()?, entrance.tls.clone());
    Ok(Visitor { socket, peer: Arc::from(peer.to_string()), access: entrance.access.clone() })
}

/// The local socket for processes on this machine. Without it, they connect like others.
fn local() -> (Local, Option<LocalListener>) {
    match Local::listen() {
        Ok((local, listener)) => (local, Some(listener)),
        Err(error) => {
            tracing::debug!(%error, "serving processes on this machine over TCP only");
            (Local::default(), None)
        }
    }
}

/// Handles new connections.
struct Visitors {
    services: Services,
    stopping: watch::Receiver<bool>,
    max_connections: usize,
}

impl Visitors {
    async fn accept_until(
        &self,
        listeners: &Listeners,
        workers: &mut Workers,
        shutdown: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let mut shutdown = std::pin::pin!(shutdown);
        let mut refusals = Refusals::default();
        loop {
            tokio::select! {
                () = &mut shutdown => return Ok(()),
                accepted = listeners.accept() => match accepted {
                    Ok(visitor) if workers.connections() >= self.max_connections => {
                        self.services.count_refusal();
                        refusals.note(&visitor.peer, self.max_connections);
                    }
                    Ok(visitor) => workers.serve(visitor, self.services.clone(), self.stopping.clone()),
                    Err(error) => survive(error).await?,
                },
                () = workers.reap() => {}
            }
        }
    }
}

/// Refused connections. They are logged at intervals, not each.
#[derive(Default)]
struct Refusals {
    untold: u64,
    telling: LogThrottle,
}

impl Refusals {
    fn note(&mut self, peer: &str, limit: usize) {
        self.untold += 1;
        if self.telling.is_due(Instant::now()) {
            tracing::warn!(
                last = peer,
                refused = self.untold,
                "refusing connections: the limit of {limit} open connections (max_connections) is reached"
            );
            self.untold = 0;
        }
    }
}
