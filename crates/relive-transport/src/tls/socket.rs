//! A TCP socket with TLS, which two tasks read and write concurrently.

use std::io::{self, BufRead as _, IoSlice, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use rustls::{ClientConnection, Connection, ServerConnection};
use tokio::net::TcpStream;

use super::{ClientTls, ServerTls};
use crate::limits::{HANDSHAKE_RESULT_TIMEOUT, TLS_READ_BYTES, TLS_SEND_BUFFER_BYTES};

/// A TCP socket with TLS. The lock is held while bytes are copied and encrypted, but never across a wait.
#[derive(Debug)]
pub struct TlsSocket {
    tcp: TcpStream,
    session: Mutex<Session>,
}

/// The TLS session, and received bytes that it has not processed yet. The session reads 4 KiB at a time; without this
/// buffer, each read would be a system call.
#[derive(Debug)]
struct Session {
    tls: Connection,
    received: Vec<u8>,
    taken: usize,
}

impl TlsSocket {
    /// Completes the handshake with a client.
    ///
    /// # Errors
    /// If the client does not use TLS, does not trust this server, or lacks a required certificate.
    pub(crate) async fn accept(tcp: TcpStream, tls: &ServerTls) -> io::Result<Self> {
        let session = ServerConnection::new(Arc::clone(&tls.0)).map_err(io::Error::other)?;
        Self::shake_hands(tcp, session.into()).await
    }

    /// Completes the handshake with the server at `host`, for gRPC or the bulk path.
    ///
    /// # Errors
    /// If the server does not use TLS; its certificate is not trusted or is for another name; or it does not trust this
    /// client.
    pub(crate) async fn connect(
        tcp: TcpStream,
        host: &str,
        tls: &ClientTls,
        is_bulk: bool,
    ) -> io::Result<Self> {
        let name = tls.name_for(host).map_err(io::Error::other)?;
        let config = if is_bulk { &tls.bulk } else { &tls.http2 };
        let session = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
        let socket = Self::shake_hands(tcp, session.into()).await?;
        if tls.certificate_requested.is_set() {
            // A server that stays silent has accepted the client.
            let handshake_result =
                tokio::time::timeout(HANDSHAKE_RESULT_TIMEOUT, socket.handshake_result()).await;
            handshake_result.unwrap_or(Ok(()))?;
        }
        Ok(socket)
    }

    /// Waits for the server's decision, after the handshake, on whether to accept the client.
    async fn handshake_result(&self) -> io::Result<()> {
        loop {
            self.tcp.readable().await?;
            match self.session().receive(&self.tcp) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result.map(drop),
            }
        }
    }

    async fn shake_hands(tcp: TcpStream, mut tls: Connection) -> io::Result<Self> {
        tls.set_buffer_limit(Some(TLS_SEND_BUFFER_BYTES));
        let socket = Self { tcp, session: Mutex::new(Session { tls, received: Vec::new(), taken: 0 }) };
        loop {
            socket.flush().await?;
            if !socket.session().tls.is_handshaking() {
                return Ok(socket);
            }
            socket.tcp.readable().await?;
            match socket.session().receive(&socket.tcp) {
                Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, ENDED_EARLY)),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub(crate) fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    /// Waits until bytes can be read: either decrypted bytes, or encrypted bytes that may yield decrypted ones.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        if self.session().has_data() {
            return Ok(());
        }
        self.tcp.readable().await
    }

    /// Peeks at received bytes.
    pub(crate) fn try_peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut session = self.session();
        while !session.has_plaintext() {
            if session.receive(&self.tcp)? == 0 {
                return Ok(0);
            }
        }
        let mut reader = session.tls.reader();
        let seen = reader.fill_buf()?;
        let taken = seen.len().min(buffer.len());
        for (to, from) in buffer.iter_mut().zip(seen) {
            *to = *from;
        }
        Ok(taken)
    }

    pub(crate) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut session = self.session();
        let mut read = 0;
        while let Some(rest) = buffer.get_mut(read..).filter(|rest| !rest.is_empty()) {
            match session.tls.reader().read(rest) {
                Ok(0) => return Ok(read),
                Ok(more) => read += more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => match session.receive(&self.tcp) {
                    Ok(0) => return Ok(read),
                    Ok(_) => {}
                    Err(error) if read == 0 => return Err(error),
                    Err(_) => return Ok(read),
                },
                // TLS need not announce its end, because all protocols on this socket mark their own end.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(read),
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    pub(crate) fn try_write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut session = self.session();
        session.send(&self.tcp)?;
        let written = session.tls.writer().write_vectored(parts)?;
        match session.send(&self.tcp) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(written),
        }
    }

    /// Waits until all written bytes have been sent.
    pub(crate) async fn flush(&self) -> io::Result<()> {
        std::future::poll_fn(|cx| self.poll_flush(cx)).await
    }

    pub(crate) fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            match self.try_read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.tcp.poll_read_ready(cx))?;
                }
                read => return Poll::Ready(read),
            }
        }
    }

    pub(crate) fn poll_write(&self, cx: &mut Context<'_>, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        loop {
            match self.try_write(parts) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.tcp.poll_write_ready(cx))?;
                }
                written => return Poll::Ready(written),
            }
        }
    }

    pub(crate) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let sent = self.session().send(&self.tcp);
            match sent {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.tcp.poll_write_ready(cx))?;
                }
                sent => return Poll::Ready(sent),
            }
        }
    }

    /// Sends the end of the stream to the peer, if the system accepts it immediately.
    pub(crate) fn send_close_notify(&self) {
        let mut session = self.session();
        session.tls.send_close_notify();
        // A broken connection has already ended.
        let _ = session.send(&self.tcp);
    }

    fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const ENDED_EARLY: &str = "the connection ended during the TLS handshake";

impl Session {
    fn has_plaintext(&mut self) -> bool {
        self.tls.reader().fill_buf().is_ok_and(|bytes| !bytes.is_empty())
    }

    /// Returns whether a read may return bytes without waiting for the peer.
    fn has_data(&mut self) -> bool {
        self.taken < self.received.len() || self.has_plaintext()
    }

    /// Decrypts some of the received bytes, and sends any responses that the protocol requires. Returns 0 at the end.
    fn receive(&mut self, tcp: &TcpStream) -> io::Result<usize> {
        if self.taken == self.received.len() {
            self.fetch(tcp)?;
        }
        let read = self.tls.read_tls(&mut self.received.get(self.taken..).unwrap_or_default())?;
        self.taken += read;
        let processed = self.tls.process_new_packets();
        match self.send(tcp) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
        processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(read)
    }

    /// Reads the bytes that the system has available, or none at the end of the stream.
    fn fetch(&mut self, tcp: &TcpStream) -> io::Result<()> {
        let mut received = std::mem::take(&mut self.received);
        self.taken = 0;
        received.clear();
        received.reserve(TLS_READ_BYTES);
        // The buffer is freed when no bytes arrive, so that idle connections do not retain memory.
        tcp.try_read_buf(&mut received)?;
        self.received = received;
        Ok(())
    }

    /// Sends encrypted bytes.
    fn send(&mut self, tcp: &TcpStream) -> io::Result<()> {
        while self.tls.wants_write() {
            self.tls.write_tls(&mut Sending(tcp))?;
        }
        Ok(())
    }
}

/// Sends encrypted bytes without waiting.
struct Sending<'a>(&'a TcpStream);

impl Write for Sending<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
