//! The accept loop and the end of a server.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use relive_engine::Engine;
use relive_transport::LocalListener;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::ServerOptions;
use crate::bulk::Local;
use crate::connection::Accepted;
use crate::grpc::Services;
use crate::workers::Workers;

/// Serves `engine` on `listener` until `shutdown` is ready, then ends in order.
///
/// Connections are served by threads of the server's own ([`ServerOptions::workers`]); the calling task only accepts
/// them. The engine is [shut down](Engine::shut_down) at the end, with a last checkpoint if it was made to write one; its tables
/// can still be read.
///
/// # Errors
/// The listener is broken, threads cannot be started, or the last checkpoint cannot be written. Failures of single connections are logged and concern nobody
/// else.
pub async fn serve(
    listener: TcpListener,
    engine: Engine,
    options: ServerOptions,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let (stop, stopping) = watch::channel(false);
    let (local, local_listener) = local();
    let services = Services::new(engine.clone(), local, stopping.clone());
    let mut workers = Workers::start(options.workers)?;
    let listeners = Listeners { tcp: listener, local: local_listener };
    let accepted = accept_until(&listeners, &mut workers, &services, &stopping, shutdown).await;
    drop(listeners);
    tracing::info!(connections = workers.connections(), "stopping");
    // Closed tables stay as they are: the last checkpoint is written while connections end.
    let last = engine.shut_down();
    stop.send_replace(true);
    workers.drain(options.drain_timeout).await;
    let saved = match last {
        Some(last) => last.await.map(drop).map_err(io::Error::other),
        None => Ok(()),
    };
    accepted.and(saved)
}

/// Where connections come in.
struct Listeners {
    tcp: TcpListener,
    /// From processes of this machine, if the system has such sockets.
    local: Option<LocalListener>,
}

impl Listeners {
    async fn accept(&self) -> io::Result<(Accepted, Arc<str>)> {
        let local = async {
            match &self.local {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            accepted = self.tcp.accept() => {
                let (socket, peer) = accepted?;
                Ok((Accepted::Tcp(socket.into_std()?), Arc::from(peer.to_string())))
            }
            accepted = local => Ok((Accepted::Local(accepted?), Arc::from("this machine"))),
        }
    }
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

async fn accept_until(
    listeners: &Listeners,
    workers: &mut Workers,
    services: &Services,
    stopping: &watch::Receiver<bool>,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => return Ok(()),
            accepted = listeners.accept() => match accepted {
                Ok((socket, peer)) => workers.serve(socket, peer, services.clone(), stopping.clone()),
                Err(error) => survive(error).await?,
            },
            () = workers.reap() => {}
        }
    }
}

/// Tells failures of one connection, and a lack of descriptors, which passes, from the end of the listener.
async fn survive(error: io::Error) -> io::Result<()> {
    if is_of_one_connection(&error) {
        tracing::debug!(%error, "accept failed");
        return Ok(());
    }
    if is_out_of_descriptors(&error) {
        tracing::error!(%error, "cannot accept connections for a second; raise the limit of open files");
        tokio::time::sleep(Duration::from_secs(1)).await;
        return Ok(());
    }
    Err(error)
}

fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted
    )
}

/// EMFILE and ENFILE have no kind of their own.
fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(23 | 24))
}
