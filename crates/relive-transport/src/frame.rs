//! Frames on a socket.

use std::io::{self, IoSlice};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use relive_wire::bulk::{FrameError, FrameHeader, FrameKind, HEADER_BYTES};
use relive_wire::limits::MAX_BULK_HEAD_BYTES;
use tokio::time::timeout;

use crate::Socket;
use crate::limits::{
    KEPT_AHEAD_BYTES, MAX_DESCRIPTORS, MAX_PARTS, READ_AHEAD_BYTES, STALL_TIMEOUT, TRUSTED_BYTES,
};

/// A socket that is read frame by frame through this type, and written through its [`FrameWriter`].
#[derive(Debug)]
pub struct Frames {
    writer: FrameWriter,
    ahead: ReadAhead,
    descriptors: Vec<OwnedFd>,
    max_head: usize,
}

/// Bytes that have been read ahead: a part of a buffer.
#[derive(Debug, Default)]
struct ReadAhead {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl ReadAhead {
    fn bytes(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    fn len(&self) -> usize {
        self.end - self.start
    }

    fn consume(&mut self, bytes: usize) {
        self.start = self.end.min(self.start + bytes);
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Frees the memory that a large head has used.
    fn shrink(&mut self) {
        if self.len() == 0 && self.buffer.len() > KEPT_AHEAD_BYTES {
            *self = Self::default();
        }
    }

    /// Returns the room after the existing bytes. It is large enough for a total of `needed` bytes.
    fn spare_room(&mut self, needed: usize) -> &mut [u8] {
        if self.start + needed > self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.len());
            self.buffer.resize(needed.max(READ_AHEAD_BYTES), 0);
        }
        self.buffer.get_mut(self.end..).unwrap_or_default()
    }
}

/// The reason why a frame cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The connection broke.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The received bytes are not a frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// Ends the connection, even if a forked process still has the socket.
impl Drop for Frames {
    fn drop(&mut self) {
        self.writer.socket.shut_down();
    }
}

impl Frames {
    /// Creates frames on `socket`.
    #[must_use]
    pub fn new(socket: Socket) -> Self {
        let (ahead, descriptors) = (ReadAhead::default(), Vec::new());
        let writer = FrameWriter { socket: Arc::new(socket), taken: None };
        Self { writer, ahead, descriptors, max_head: MAX_BULK_HEAD_BYTES }
    }

    /// Returns the socket.
    #[must_use]
    pub fn socket(&self) -> &Socket {
        &self.writer.socket
    }

    /// Returns the writing half, for concurrent use.
    #[must_use]
    pub fn writer(&self) -> FrameWriter {
        self.writer.clone()
    }

    /// Limits the size of later heads, for a peer that has no reason to send larger ones.
    pub fn limit_heads(&mut self, bytes: usize) {
        self.max_head = bytes;
    }

    /// Reads the header and the head of the next frame. Returns `None` if the peer has closed the connection. The
    /// caller must then read the body with [`read_body`](Self::read_body) before the next frame. Dropping the future
    /// loses no data.
    ///
    /// # Errors
    /// If the connection broke or ended within a frame, or the bytes are not a frame.
    pub async fn next(&mut self) -> Result<Option<(FrameHeader, Vec<u8>)>, ReadError> {
        let header = loop {
            if let Some(bytes) = self.ahead.bytes().first_chunk() {
                break FrameHeader::decode(bytes)?;
            }
            let was_begun = self.ahead.len() > 0;
            if self.fill(HEADER_BYTES, was_begun).await? == 0 {
                return if was_begun { Err(cut_short().into()) } else { Ok(None) };
            }
        };
        if header.head_len() > self.max_head {
            return Err(FrameError::Head { got: header.head_len() as u64, limit: self.max_head }.into());
        }
        let whole = HEADER_BYTES + header.head_len();
        loop {
            if let Some(head) = self.ahead.bytes().get(HEADER_BYTES..whole) {
                let head = head.to_vec();
                self.ahead.consume(whole);
                self.ahead.shrink();
                return Ok(Some((header, head)));
            }
            // Memory is allocated as bytes arrive, so an announced length alone costs no memory.
            let soon = (self.ahead.len() * 2).max(READ_AHEAD_BYTES);
            if self.fill(whole.min(soon), true).await? == 0 {
                return Err(cut_short().into());
            }
        }
    }

    /// Reads the next `out.len()` bytes of a frame's body. Dropping the future loses the bytes that it has read.
    ///
    /// # Errors
    /// If the connection broke or ended.
    pub async fn read_body(&mut self, out: &mut [u8]) -> io::Result<()> {
        let available = self.ahead.len().min(out.len());
        let (first, mut rest) = out.split_at_mut(available);
        first.copy_from_slice(self.take_ahead(available));
        self.ahead.shrink();
        while !rest.is_empty() {
            match self.writer.socket.try_read(rest, &mut self.descriptors) {
                Ok(0) => return Err(cut_short()),
                Ok(read) => {
                    self.descriptors.truncate(MAX_DESCRIPTORS);
                    rest = rest.get_mut(read..).unwrap_or_default();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait_readable().await?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits for bytes of a frame's body and appends them to `out`: at least one and at most `most`. Without TLS, the
    /// memory is not written to before bytes have arrived. Received descriptors are closed. Dropping the future loses
    /// no data.
    ///
    /// # Errors
    /// If the connection broke or ended.
    pub async fn append_some(&mut self, out: &mut Vec<u8>, most: usize) -> io::Result<usize> {
        let available = self.ahead.len().min(most);
        if available > 0 {
            out.extend_from_slice(self.take_ahead(available));
            self.ahead.shrink();
            return Ok(available);
        }
        loop {
            match self.writer.socket.try_append(out, most) {
                Ok(0) => return Err(cut_short()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait_readable().await?,
                read => return read,
            }
        }
    }

    /// Takes bytes that have been read ahead.
    fn take_ahead(&mut self, bytes: usize) -> &[u8] {
        let start = self.ahead.start;
        self.ahead.consume(bytes);
        self.ahead.buffer.get(start..start + bytes).unwrap_or_default()
    }

    /// Waits for more bytes of a frame that has begun. There is a timeout, in case the peer announces bytes but does
    /// not send them.
    async fn wait_readable(&self) -> io::Result<()> {
        match timeout(STALL_TIMEOUT, self.writer.socket.readable()).await {
            Ok(readable) => readable,
            Err(_) => {
                let text = format!("an incomplete frame stalled for {STALL_TIMEOUT:?}");
                Err(io::Error::new(io::ErrorKind::TimedOut, text))
            }
        }
    }

    /// Like [`read_body`](Self::read_body), but reads into memory that is allocated as the bytes arrive, so an
    /// announced length alone costs no memory.
    ///
    /// # Errors
    /// The errors of [`read_body`](Self::read_body).
    pub async fn read_bytes(&mut self, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        while bytes.len() < len {
            let start = bytes.len();
            bytes.resize(len.min((start * 2).max(TRUSTED_BYTES)), 0);
            self.read_body(bytes.get_mut(start..).unwrap_or_default()).await?;
        }
        Ok(bytes)
    }

    /// Takes the descriptor that came with the current frame, if any.
    pub fn take_descriptor(&mut self) -> Option<OwnedFd> {
        (!self.descriptors.is_empty()).then(|| self.descriptors.remove(0))
    }

    /// Waits for bytes and reads them, to collect `needed` bytes. Once a frame has begun, its next bytes must arrive
    /// within a timeout.
    async fn fill(&mut self, needed: usize, has_begun: bool) -> io::Result<usize> {
        loop {
            match self.writer.socket.try_read(self.ahead.spare_room(needed), &mut self.descriptors) {
                Ok(read) => {
                    self.descriptors.truncate(MAX_DESCRIPTORS);
                    self.ahead.end += read;
                    return Ok(read);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && has_begun => {
                    self.wait_readable().await?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.writer.socket.readable().await?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Like [`FrameWriter::send`].
    ///
    /// # Errors
    /// The errors of [`FrameWriter::send`].
    pub async fn send(&self, parts: &mut [IoSlice<'_>]) -> io::Result<()> {
        self.writer.send(parts).await
    }

    /// Like [`FrameWriter::send_frame`].
    ///
    /// # Errors
    /// The errors of [`FrameWriter::send_frame`].
    pub async fn send_frame(&self, kind: FrameKind, head: &[u8], body: &[u8]) -> io::Result<()> {
        self.writer.send_frame(kind, head, body).await
    }
}

/// The writing half of a connection.
#[derive(Debug, Clone)]
pub struct FrameWriter {
    socket: Arc<Socket>,
    taken: Option<Arc<AtomicU64>>,
}

impl FrameWriter {
    /// Returns the same writer, which adds the bytes that the system accepts to `taken`.
    #[must_use]
    pub fn counting(self, taken: Arc<AtomicU64>) -> Self {
        Self { taken: Some(taken), ..self }
    }

    /// Writes all of `parts`. If the future is dropped before it completes, the connection is unusable.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn send(&self, parts: &mut [IoSlice<'_>]) -> io::Result<()> {
        let mut rest = parts;
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            let now = rest.get(..rest.len().min(MAX_PARTS)).unwrap_or_default();
            match self.socket.try_write(now) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    if let Some(taken) = &self.taken {
                        taken.fetch_add(written as u64, Ordering::Relaxed);
                    }
                    IoSlice::advance_slices(&mut rest, written);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.socket.writable().await?,
                Err(error) => return Err(error),
            }
        }
        self.socket.flush().await
    }

    /// Writes as many of `bytes` as the system accepts immediately.
    ///
    /// # Errors
    /// If the connection broke. `WouldBlock` if the system accepts no bytes, and always with TLS, which may buffer a
    /// part.
    pub fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
        match &*self.socket {
            Socket::Tls(_) => Err(io::ErrorKind::WouldBlock.into()),
            Socket::Tcp(_) | Socket::Unix(_) => self.socket.try_write(&[IoSlice::new(bytes)]),
        }
    }

    /// Writes a frame.
    ///
    /// # Errors
    /// If the frame exceeds the size limit, or the connection broke.
    pub async fn send_frame(&self, kind: FrameKind, head: &[u8], body: &[u8]) -> io::Result<()> {
        let header = FrameHeader::new(kind, head.len(), body.len()).map_err(io::Error::other)?.encode();
        self.send(&mut [IoSlice::new(&header), IoSlice::new(head), IoSlice::new(body)]).await
    }

    /// Writes a frame with a body in several parts.
    ///
    /// # Errors
    /// The errors of [`send_frame`](Self::send_frame).
    pub async fn send_parts(&self, kind: FrameKind, head: &[u8], body: &[&[u8]]) -> io::Result<()> {
        let len = body.iter().map(|part| part.len()).sum();
        let header = FrameHeader::new(kind, head.len(), len).map_err(io::Error::other)?.encode();
        let whole = [&header[..], head].into_iter().chain(body.iter().copied());
        let mut parts: Vec<IoSlice<'_>> = whole.map(IoSlice::new).collect();
        self.send(&mut parts).await
    }

    /// Writes `bytes`, and a descriptor with the first byte.
    ///
    /// # Errors
    /// If the connection broke or does not support descriptors.
    pub async fn send_with(&self, bytes: &[u8], descriptor: BorrowedFd<'_>) -> io::Result<()> {
        let written = loop {
            match self.socket.try_write_with(bytes, descriptor) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.socket.writable().await?,
                written => break written?,
            }
        };
        self.send(&mut [IoSlice::new(bytes.get(written..).unwrap_or_default())]).await
    }
}

fn cut_short() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the connection ended inside a frame")
}
