//! TCP and Unix sockets as one type.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::BufMut;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg, sockopt,
};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
use tokio::net::{TcpStream, UnixStream};

use crate::limits::{
    KEEP_ALIVE_IDLE, KEEP_ALIVE_INTERVAL, KEEP_ALIVE_PROBES, MAX_DESCRIPTORS, TLS_READ_BYTES,
};
use crate::tls::{ClientTls, ServerTls, TlsSocket};

/// A connected socket.
#[derive(Debug)]
pub enum Socket {
    /// A TCP connection to any machine.
    Tcp(TcpStream),
    /// A TCP connection with TLS to any machine.
    Tls(Box<TlsSocket>),
    /// A Unix socket to a process on this machine.
    Unix(UnixStream),
}

/// The purpose of a connection, which its handshake declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// gRPC.
    Grpc,
    /// The bulk path.
    Bulk,
}

fn prepared(socket: TcpStream) -> io::Result<TcpStream> {
    socket.set_nodelay(true)?;
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_tcp_keepidle(&socket, KEEP_ALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(&socket, KEEP_ALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(&socket, KEEP_ALIVE_PROBES)?;
    Ok(socket)
}

impl Socket {
    /// Returns whether descriptors can be sent over the socket.
    #[must_use]
    pub fn is_unix(&self) -> bool {
        matches!(self, Self::Unix(_))
    }

    /// Creates a TCP socket that sends written bytes immediately and probes a silent peer (keepalive).
    ///
    /// # Errors
    /// The socket is broken.
    pub fn over_tcp(socket: TcpStream) -> io::Result<Self> {
        Ok(Self::Tcp(prepared(socket)?))
    }

    /// Like [`over_tcp`](Self::over_tcp), but with TLS, after the server's side of the handshake.
    ///
    /// # Errors
    /// If the socket is broken, or the client does not use TLS, does not trust this server, or lacks a required
    /// certificate.
    pub async fn accept_tls(socket: TcpStream, tls: &ServerTls) -> io::Result<Self> {
        Ok(Self::Tls(Box::new(TlsSocket::accept(prepared(socket)?, tls).await?)))
    }

    /// Creates a TCP socket with TLS to the server at `host`, for gRPC or the bulk path, after the client's side of the
    /// handshake.
    ///
    /// # Errors
    /// If the socket is broken; the server does not use TLS; its certificate is not trusted or is for another name; or
    /// it does not trust this client.
    pub async fn connect_tls(
        socket: TcpStream,
        host: &str,
        tls: &ClientTls,
        purpose: Purpose,
    ) -> io::Result<Self> {
        let is_bulk = purpose == Purpose::Bulk;
        Ok(Self::Tls(Box::new(TlsSocket::connect(prepared(socket)?, host, tls, is_bulk).await?)))
    }

    /// Ends the connection in both directions, even if other processes have the socket.
    pub(crate) fn shut_down(&self) {
        let socket = match self {
            Self::Tcp(socket) => socket.as_fd(),
            Self::Tls(socket) => {
                socket.send_close_notify();
                socket.tcp().as_fd()
            }
            Self::Unix(socket) => socket.as_fd(),
        };
        // A broken connection has already ended.
        let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
    }

    /// Waits until bytes can be read or the peer is gone.
    ///
    /// # Errors
    /// The socket is broken.
    pub async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.readable().await,
            Self::Tls(socket) => socket.readable().await,
            Self::Unix(socket) => socket.readable().await,
        }
    }

    /// Waits until bytes can be read or the peer has closed the connection, and returns the state.
    ///
    /// # Errors
    /// The socket is broken.
    pub async fn ready(&self) -> io::Result<Ready> {
        match self {
            Self::Tcp(socket) => socket.ready(Interest::READABLE).await,
            Self::Tls(socket) => socket.tcp().ready(Interest::READABLE).await,
            Self::Unix(socket) => socket.ready(Interest::READABLE).await,
        }
    }

    /// Waits until bytes can be written.
    ///
    /// # Errors
    /// The socket is broken.
    pub async fn writable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.writable().await,
            Self::Tls(socket) => socket.tcp().writable().await,
            Self::Unix(socket) => socket.writable().await,
        }
    }

    /// Peeks at received bytes.
    ///
    /// # Errors
    /// If the socket is broken. `WouldBlock` if no bytes have arrived.
    pub fn try_peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let peek = |fd: BorrowedFd<'_>, buffer| Ok(rustix::net::recv(fd, buffer, flags)?.0);
        match self {
            Self::Tls(socket) => socket.try_peek(buffer),
            Self::Tcp(socket) => socket.try_io(Interest::READABLE, || peek(socket.as_fd(), buffer)),
            Self::Unix(socket) => socket.try_io(Interest::READABLE, || peek(socket.as_fd(), buffer)),
        }
    }

    /// Reads available bytes. Returns 0 at the end. Received descriptors are added to `descriptors`.
    ///
    /// # Errors
    /// If the socket is broken. `WouldBlock` if no bytes have arrived.
    pub fn try_read(&self, buffer: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.try_read(buffer),
            Self::Tls(socket) => socket.try_read(buffer),
            Self::Unix(socket) => {
                socket.try_io(Interest::READABLE, || receive(socket.as_fd(), buffer, descriptors))
            }
        }
    }

    /// Like [`try_read`](Self::try_read), but appends up to `most` bytes to `out`. Received descriptors are closed.
    ///
    /// # Errors
    /// The errors of [`try_read`](Self::try_read).
    pub(crate) fn try_append(&self, out: &mut Vec<u8>, most: usize) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.try_read_buf(&mut out.limit(most)),
            Self::Tls(socket) => {
                let start = out.len();
                out.resize(start + most.min(TLS_READ_BYTES), 0);
                let read = socket.try_read(out.get_mut(start..).unwrap_or_default());
                out.truncate(start + read.as_ref().map_or(0, |read| *read));
                read
            }
            Self::Unix(socket) => socket.try_read_buf(&mut out.limit(most)),
        }
    }

    /// Writes some of `parts`.
    ///
    /// # Errors
    /// If the socket is broken. `WouldBlock` if it currently accepts no bytes.
    pub fn try_write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.try_write_vectored(parts),
            Self::Tls(socket) => socket.try_write(parts),
            Self::Unix(socket) => socket.try_write_vectored(parts),
        }
    }

    /// Waits until the system has accepted all written bytes.
    ///
    /// # Errors
    /// The socket is broken.
    pub async fn flush(&self) -> io::Result<()> {
        match self {
            Self::Tls(socket) => socket.flush().await,
            Self::Tcp(_) | Self::Unix(_) => Ok(()),
        }
    }

    /// Writes some of `bytes` with a descriptor, if the socket supports descriptors.
    ///
    /// # Errors
    /// The errors of [`try_write`](Self::try_write), and `Unsupported` on a TCP socket.
    pub fn try_write_with(&self, bytes: &[u8], descriptor: BorrowedFd<'_>) -> io::Result<usize> {
        match self {
            Self::Tcp(_) | Self::Tls(_) => Err(io::ErrorKind::Unsupported.into()),
            Self::Unix(socket) => {
                socket.try_io(Interest::WRITABLE, || send(socket.as_fd(), bytes, descriptor))
            }
        }
    }
}

/// Receives bytes and descriptors. On a Unix socket, a read that does not request descriptors loses them. It is an error
/// if the system drops a descriptor because this process has too many, or because the peer sent too many at once.
fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut ancillary, flags)?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    if received.flags.contains(ReturnFlags::CTRUNC) {
        let text = "too many open files: the system dropped a descriptor; raise the limit (ulimit -n)";
        return Err(io::Error::other(text));
    }
    Ok(received.bytes)
}

fn send(socket: BorrowedFd<'_>, bytes: &[u8], descriptor: BorrowedFd<'_>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor];
    if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::Error::other("no room for a descriptor"));
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    Ok(sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, flags)?)
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(socket) => Pin::new(socket).poll_read(cx, buffer),
            Self::Tls(socket) => {
                let read = ready!(socket.poll_read(cx, buffer.initialize_unfilled()))?;
                buffer.advance(read);
                Poll::Ready(Ok(()))
            }
            Self::Unix(socket) => Pin::new(socket).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(socket) => Pin::new(socket).poll_write(cx, bytes),
            Self::Tls(socket) => socket.poll_write(cx, &[IoSlice::new(bytes)]),
            Self::Unix(socket) => Pin::new(socket).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(socket) => Pin::new(socket).poll_write_vectored(cx, parts),
            Self::Tls(socket) => socket.poll_write(cx, parts),
            Self::Unix(socket) => Pin::new(socket).poll_write_vectored(cx, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(socket) => Pin::new(socket).poll_flush(cx),
            Self::Tls(socket) => socket.poll_flush(cx),
            Self::Unix(socket) => Pin::new(socket).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(socket) => Pin::new(socket).poll_shutdown(cx),
            Self::Tls(socket) => {
                socket.send_close_notify();
                ready!(socket.poll_flush(cx))?;
                Poll::Ready(Ok(rustix::net::shutdown(socket.tcp().as_fd(), rustix::net::Shutdown::Write)?))
            }
            Self::Unix(socket) => Pin::new(socket).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends a byte with copies of a descriptor.
    fn send_copies(socket: &UnixStream, copies: usize) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2 * MAX_DESCRIPTORS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors = vec![socket.as_fd(); copies];
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)));
        sendmsg(socket, &[IoSlice::new(b"x")], &mut ancillary, SendFlags::empty()).expect("the peer exists");
    }

    /// The system reports a descriptor for which the process has no room in the same way as one too many.
    #[tokio::test]
    async fn a_dropped_descriptor_is_an_error() {
        let (peer, socket) = UnixStream::pair().unwrap();
        let socket = Socket::Unix(socket);
        let mut received = Vec::new();
        send_copies(&peer, MAX_DESCRIPTORS);
        socket.readable().await.unwrap();
        assert_eq!(socket.try_read(&mut [0], &mut received).unwrap(), 1);
        assert_eq!(received.len(), MAX_DESCRIPTORS);
        send_copies(&peer, 2 * MAX_DESCRIPTORS);
        socket.readable().await.unwrap();
        let error = socket.try_read(&mut [0], &mut received).unwrap_err();
        assert!(error.to_string().ends_with("raise the limit (ulimit -n)"), "{error}");
    }
}
