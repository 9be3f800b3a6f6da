//! Serves one existing connection instead of a listener.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use relive_engine::Engine;
use tokio::sync::watch;

use super::connection::{self, Accepted, IncomingConnection};
use super::load::LoadShare;
use crate::access::Access;
use crate::limits::MAX_BYTES_IN_FLIGHT;
use crate::services::{LocalSocket, Services};

/// Serves `engine` to the other end of `socket`, such as a child process, until either side ends the connection.
/// Dropping the future also ends the connection. The engine is not shut down.
///
/// ```no_run
/// use std::os::fd::OwnedFd;
/// use std::os::unix::net::UnixStream;
/// use std::process::Command;
///
/// use relive_server::access::{Access, Role};
/// use relive_server::{Engine, serve_connection};
/// use relive_table::TableConfig;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let (ours, theirs) = UnixStream::pair()?;
/// Command::new("./actor").stdin(OwnedFd::from(theirs)).spawn()?;
/// let engine = Engine::builder().table(TableConfig::new("replay")).build().map_err(std::io::Error::other)?;
/// serve_connection(ours, engine, Access::Everybody(Role::Read)).await
/// # })?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// The connection broke, or its protocol is neither HTTP/2 nor the bulk path.
pub async fn serve_connection(socket: UnixStream, engine: Engine, access: Access) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    // The sender is dropped only after the connection has ended, so the connection never receives the signal to stop.
    let (_stop, stopping) = watch::channel(false);
    let services = Services::new(engine, LocalSocket::default(), stopping.clone(), MAX_BYTES_IN_FLIGHT);
    let incoming =
        IncomingConnection { socket: Accepted::Local(socket), peer: Arc::from("this machine"), access };
    connection::serve(incoming, services, LoadShare::default(), stopping).await.map_err(io::Error::other)
}
