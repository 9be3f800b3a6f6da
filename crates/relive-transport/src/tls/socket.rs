//! A TCP socket with TLS on it, read and written by two tasks at once.

use std::io::{self, BufRead as _, IoSlice, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use rustls::{ClientConnection, Connection, ServerConnection};
use tokio::net::TcpStream;

use super::{ClientTls, ServerTls};
use crate::limits::{TLS_READ_BYTES, TLS_SEND_BUFFER_BYTES, VERDICT_TIMEOUT};

/// A TCP socket with TLS on it. The lock is held while bytes are moved and enciphered, never while anybody waits.
#[derive(Debug)]
pub struct TlsSocket {
    tcp: TcpStream,
    session: Mutex<Session>,
}

/// TLS, and what came and was not taken by it yet. It takes 4 KiB at once, which would be a system call each.
#[derive(Debug)]
struct Session {
    tls: Connection,
    came: Vec<u8>,
    taken: usize,
}

impl TlsSocket {
    /// Shakes hands with a client.
    ///
    /// # Errors
    /// The client does not speak TLS, does not trust this server, or shows no certificate where it must.
    pub(crate) async fn accept(tcp: TcpStream, tls: &ServerTls) -> io::Result<Self> {
        let session = ServerConnection::new(Arc::clone(&tls.0)).map_err(io::Error::other)?;
        Self::shake_hands(tcp, session.into()).await
    }

    /// Shakes hands with the server at `host`, for gRPC or for the bulk path.
    ///
    /// # Errors
    /// The server does not speak TLS, its certificate is not trusted or for another name, or it does not trust this
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
        if tls.asked.is_set() {
            // One that says nothing is content.
            let verdict = tokio::time::timeout(VERDICT_TIMEOUT, socket.verdict()).await;
            verdict.unwrap_or(Ok(()))?;
        }
        Ok(socket)
    }

    /// Waits for what the server says after the handshake: that it takes the client, or that it does not.
    async fn verdict(&self) -> io::Result<()> {
        loop {
            self.tcp.readable().await?;
            match self.session().receive(&self.tcp) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                said => return said.map(drop),
            }
        }
    }

    async fn shake_hands(tcp: TcpStream, mut tls: Connection) -> io::Result<Self> {
        tls.set_buffer_limit(Some(TLS_SEND_BUFFER_BYTES));
        let socket = Self { tcp, session: Mutex::new(Session { tls, came: Vec::new(), taken: 0 }) };
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

    /// Waits until something can be read: what is deciphered already, or bytes of which something may come.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        if self.session().has_something() {
            return Ok(());
        }
        self.tcp.readable().await
    }

    /// Looks at what came without taking it.
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
                // Everything that goes over this says itself where it ends.
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

    /// Waits until everything written has gone out.
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

    /// Tells the other side that this was the end, as far as the system takes it.
    pub(crate) fn say_goodbye(&self) {
        let mut session = self.session();
        session.tls.send_close_notify();
        // One that is broken has ended.
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

    /// Whether reading may get something without waiting for the other side.
    fn has_something(&mut self) -> bool {
        self.taken < self.came.len() || self.has_plaintext()
    }

    /// Deciphers some of what came, and answers what asks for it. 0 at the end.
    fn receive(&mut self, tcp: &TcpStream) -> io::Result<usize> {
        if self.taken == self.came.len() {
            self.fetch(tcp)?;
        }
        let read = self.tls.read_tls(&mut self.came.get(self.taken..).unwrap_or_default())?;
        self.taken += read;
        let processed = self.tls.process_new_packets();
        match self.send(tcp) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
        processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(read)
    }

    /// Takes over what the system has; nothing at the end.
    fn fetch(&mut self, tcp: &TcpStream) -> io::Result<()> {
        let mut came = std::mem::take(&mut self.came);
        self.taken = 0;
        came.clear();
        came.reserve(TLS_READ_BYTES);
        // When nothing comes the memory is given back: idle connections keep none.
        tcp.try_read_buf(&mut came)?;
        self.came = came;
        Ok(())
    }

    /// Sends what is enciphered.
    fn send(&mut self, tcp: &TcpStream) -> io::Result<()> {
        while self.tls.wants_write() {
            self.tls.write_tls(&mut Sending(tcp))?;
        }
        Ok(())
    }
}

/// The enciphered bytes, without waiting.
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
