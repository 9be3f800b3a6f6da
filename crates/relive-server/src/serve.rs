//! The accept loop and the end of a server.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use relive_engine::Engine;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::ServerOptions;
use crate::connection;
use crate::grpc::Services;

/// Serves `engine` on `listener` until `shutdown` is ready, then ends in order.
///
/// The engine is closed afterwards; its tables can still be read.
///
/// # Errors
/// The listener is broken. Failures of single connections are logged and concern nobody else.
pub async fn serve(
    listener: TcpListener,
    engine: Engine,
    options: ServerOptions,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let (stop, stopping) = watch::channel(false);
    let services = Services::new(engine.clone(), stopping.clone());
    let mut connections = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept() => match accepted {
                Ok((socket, peer)) => {
                    connections.spawn(serve_one(socket, peer, services.clone(), stopping.clone()));
                }
                Err(error) if is_of_one_connection(&error) => tracing::debug!(%error, "accept failed"),
                Err(error) if is_out_of_descriptors(&error) => {
                    tracing::error!(%error, "cannot accept connections; raise the limit of open files");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                Err(error) => return Err(error),
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    tracing::info!(connections = connections.len(), "stopping");
    engine.close();
    stop.send_replace(true);
    drain(connections, options.drain_timeout).await;
    Ok(())
}

async fn drain(mut connections: JoinSet<()>, timeout: Duration) {
    let all_gone = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(timeout, all_gone).await.is_err() {
        tracing::warn!(
            connections = connections.len(),
            ?timeout,
            "connections cut: they did not end in time"
        );
        connections.shutdown().await;
    }
}

async fn serve_one(socket: TcpStream, peer: SocketAddr, services: Services, stopping: watch::Receiver<bool>) {
    if let Err(error) = connection::serve(socket, peer, services, stopping).await {
        tracing::debug!(%peer, %error, "connection ended");
    }
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
