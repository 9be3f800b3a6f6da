//! Unix sockets without a file: the name disappears with the process, so nothing is left behind, no matter how either
//! side ends. Only processes of the same user can connect.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener as StdListener, UnixStream as StdStream};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use tokio::net::{UnixListener, UnixStream};

use crate::limits::SEND_BUFFER_BYTES;

/// The name of a socket to which processes on this machine can connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalAddress(String);

impl LocalAddress {
    /// Creates an address from the name that a server sent.
    #[must_use]
    pub fn new(name: String) -> Self {
        Self(name)
    }

    /// Returns the name to send to clients.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }

    fn address(&self) -> io::Result<SocketAddr> {
        SocketAddr::from_abstract_name(self.0.as_bytes())
    }
}

/// A listener for processes of the same user on this machine.
#[derive(Debug)]
pub struct LocalListener {
    listener: UnixListener,
    address: LocalAddress,
}

impl LocalListener {
    /// Listens at `address`. Must be called inside a Tokio runtime.
    ///
    /// # Errors
    /// If the name is in use or too long, or the system does not support such names.
    pub fn bind(address: LocalAddress) -> io::Result<Self> {
        let listener = StdListener::bind_addr(&address.address()?)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener: UnixListener::from_std(listener)?, address })
    }

    /// Returns its address.
    #[must_use]
    pub fn address(&self) -> &LocalAddress {
        &self.address
    }

    /// Accepts the next connection from a process of the same user; other connections are closed immediately.
    ///
    /// # Errors
    /// The errors of the system's `accept`.
    pub async fn accept(&self) -> io::Result<StdStream> {
        loop {
            let (socket, _) = self.listener.accept().await?;
            if is_own_peer(&socket) {
                enlarge_buffers(&socket);
                return socket.into_std();
            }
        }
    }
}

/// Requests buffers that hold a whole request or batch, so that the two sides do not wake each other for parts of it.
/// With smaller buffers, the connection is slower but still works.
fn enlarge_buffers(socket: &UnixStream) {
    let _ = rustix::net::sockopt::set_socket_send_buffer_size(socket, SEND_BUFFER_BYTES);
}

/// Returns whether the peer is a process of this user or of root.
#[must_use]
pub fn is_own_peer(socket: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    socket.peer_cred().is_ok_and(|peer| peer.uid() == own || peer.uid() == 0)
}

/// Connects to a server of the same user on this machine. Must be called inside a Tokio runtime.
///
/// # Errors
/// No process listens at the address, or the listening process belongs to another user;
/// [`WouldBlock`](io::ErrorKind::WouldBlock) while the server's queue of connections is full.
pub fn connect_local(address: &LocalAddress) -> io::Result<UnixStream> {
    // The flags are set before the socket connects; otherwise, the system would block the thread until there is room in
    // the queue.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new_abstract_name(address.0.as_bytes())?)?;
    let socket = UnixStream::from_std(StdStream::from(socket))?;
    if is_own_peer(&socket) {
        enlarge_buffers(&socket);
        Ok(socket)
    } else {
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "the server belongs to another user"))
    }
}

/// Returns an id of this machine, which is the same for all processes that share a kernel and changes with each boot.
/// The id is empty if the system does not provide one.
#[must_use]
pub fn host_id() -> String {
    let read = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    read.map_or_else(|_| String::new(), |id| id.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use rustix::net::{bind, listen};

    use super::*;

    fn address(name: &str) -> LocalAddress {
        LocalAddress::new(format!("relive-test/{name}/{}", std::process::id()))
    }

    #[tokio::test]
    async fn both_ends_recognize_their_peer_process() {
        let listener = LocalListener::bind(address("both")).unwrap();
        let socket = connect_local(listener.address()).unwrap();
        listener.accept().await.unwrap().set_nonblocking(true).unwrap();
        assert!(is_own_peer(&socket));
        let nobody = connect_local(&address("nobody")).unwrap_err();
        assert_eq!(nobody.kind(), io::ErrorKind::ConnectionRefused);
        let too_long = connect_local(&address(&"x".repeat(200))).unwrap_err();
        assert_eq!(too_long.kind(), io::ErrorKind::InvalidFilename);
    }

    #[tokio::test]
    async fn a_full_listener_does_not_block_the_client() {
        let address = address("full");
        let listener =
            socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        bind(&listener, &SocketAddrUnix::new_abstract_name(address.name().as_bytes()).unwrap()).unwrap();
        listen(&listener, 1).unwrap();
        let mut waiting = Vec::new();
        let refused = loop {
            match connect_local(&address) {
                Ok(socket) => waiting.push(socket),
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock, "{} wait", waiting.len());
    }

    #[test]
    fn this_machine_has_a_name() {
        assert_eq!((host_id().len(), host_id()), (36, host_id()));
    }
}
