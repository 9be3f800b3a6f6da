//! The accept loop and the end of a server.

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

/// Serves `engine` at `entrances`, of which a bound listener is one, until `shutdown` is ready, then ends in order.
///
/// Connections are served by threads of the server's own ([`ServerOptions::workers`]); the calling task only accepts
/// them. The engine is [shut down](Engine::shut_down) at the end, with a last checkpoint if it was made to write one;
/// its tables can still be read.
///
/// # Errors
/// The listener is broken, threads cannot be started, or the last checkpoint cannot be written. Failures of single
/// connections are logged and concern nobody else.
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
    // Closed tables stay as they are: the last checkpoint is written while connections end.
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

/// Has the files of tokens read again when they change, for as long as the result lives.
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

/// Where connections come in.
struct Listeners {
    entrances: Entrances,
    /// From processes of this machine, if the system has such sockets.
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

/// The next connection at any of `entrances`; never, if there are none.
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

/// The way for processes of this machine. Without it they come as others do.
fn local() -> (Local, Option<LocalListener>) {
    match Local::listen() {
        Ok((local, listener)) => (local, Some(listener)),
        Err(error) => {
            tracing::debug!(%error, "processes of this machine are served over TCP only");
            (Local::default(), None)
        }
    }
}

/// What becomes of connections that come in.
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

/// Connections that there was no room for. They are told of in the log now and then, not each.
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
                "connections refused: {limit} are open, which is max_connections"
            );
            self.untold = 0;
        }
    }
}
