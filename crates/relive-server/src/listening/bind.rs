//! Binds the port exclusively for this process.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpListener;

/// The reason why a port cannot be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}{hint}", hint = hint(.source))]
pub struct BindError {
    /// The address to bind.
    pub address: SocketAddr,
    /// The operating system's error.
    pub source: io::Error,
}

/// Binds `address` exclusively: while the process listens, no other server can share the port. Port 0 picks a free
/// port, which the listener reports.
///
/// # Errors
/// The address is in use, does not belong to this machine, or is not allowed for this user.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, BindError> {
    TcpListener::bind(address).await.map_err(|source| BindError { address, source })
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "; another server uses this port; stop it, or choose another port (0 picks a free one)"
        }
        io::ErrorKind::PermissionDenied => "; ports below 1024 require privileges; choose a higher port",
        io::ErrorKind::AddrNotAvailable => "; this machine does not have this address",
        _ => "",
    }
}
