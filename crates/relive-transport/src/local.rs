//! Unix sockets without a file: a name that the system forgets with the process, so that nothing is left behind however
//! either side ends. Only processes of the same user get through.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener as StdListener, UnixStream as StdStream};

use tokio::net::{UnixListener, UnixStream};

use crate::limits::SEND_BUFFER_BYTES;

/// The name of a socket that processes of this machine can connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalAddress(String);

impl LocalAddress {
    /// The address that a server tells.
    #[must_use]
    pub fn new(name: String) -> Self {
        Self(name)
    }

    /// The name as it is told to clients.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }

    fn address(&self) -> io::Result<SocketAddr> {
        SocketAddr::from_abstract_name(self.0.as_bytes())
    }
}

/// Where processes of this machine and user connect to.
#[derive(Debug)]
pub struct LocalListener {
    listener: UnixListener,
    address: LocalAddress,
}

impl LocalListener {
    /// Listens under `address`. Must be called inside a Tokio runtime.
    ///
    /// # Errors
    /// The name is in use or too long, or the system has no such names.
    pub fn bind(address: LocalAddress) -> io::Result<Self> {
        let listener = StdListener::bind_addr(&address.address()?)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener: UnixListener::from_std(listener)?, address })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> &LocalAddress {
        &self.address
    }

    /// The next connection of a process of the same user; others are closed at once.
    ///
    /// # Errors
    /// As the system's `accept`.
    pub async fn accept(&self) -> io::Result<StdStream> {
        loop {
            let (socket, _) = self.listener.accept().await?;
            if is_own_peer(&socket) {
                widen(&socket);
                return socket.into_std();
            }
        }
    }
}

/// Asks the system for room for a whole request or batch, so that both sides need not wake each other for its parts. A system that gives less
/// is slower, nothing else.
fn widen(socket: &UnixStream) {
    let _ = rustix::net::sockopt::set_socket_send_buffer_size(socket, SEND_BUFFER_BYTES);
}

/// Whether the process at the other end is of this user, or of the system's.
#[must_use]
pub fn is_own_peer(socket: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    socket.peer_cred().is_ok_and(|peer| peer.uid() == own || peer.uid() == 0)
}

/// Connects to a server of this machine, of the same user. Must be called inside a Tokio runtime.
///
/// # Errors
/// Nobody listens there, or a process of another user does.
pub fn connect_local(address: &LocalAddress) -> io::Result<UnixStream> {
    let socket = StdStream::connect_addr(&address.address()?)?;
    socket.set_nonblocking(true)?;
    let socket = UnixStream::from_std(socket)?;
    if is_own_peer(&socket) {
        widen(&socket);
        Ok(socket)
    } else {
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "the server is a process of another user"))
    }
}
