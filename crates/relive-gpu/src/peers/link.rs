//! A connection to a store on another machine.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use relive_transport::Frames;
use relive_wire::bulk::{FrameHeader, FrameKind};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::messages::{
    MAX_REQUEST_BYTES, PinHead, PinnedRowInfo, RowRequest, WindowRequest, decode_error, expect_bytes,
};
use crate::error::{Error, Result};

/// How long the link tries to notify a store that rows are released, once it is the release's turn. If the store accepts
/// no data during this time, the link closes the connection, which also releases the rows.
const RELEASE_PATIENCE: Duration = Duration::from_secs(30);
/// The number of bytes that are read at once, so that many short steps need few system calls.
const READ_BYTES: usize = 256 << 10;
/// Longer pieces are read directly to their destination.
const DIRECT_BYTES: usize = 64 << 10;

/// A connection that serves one request at a time.
#[derive(Debug)]
pub(crate) struct Link {
    /// The store's description, for errors.
    what: Arc<str>,
    /// `None` once the link is broken: an abandoned request leaves bytes on it that cannot be interpreted.
    frames: Arc<Mutex<Option<Frames>>>,
    /// Whether the next request for pins opens another connection. Rows pinned over this one can still be read.
    is_retired: AtomicBool,
    leases: AtomicU64,
    runtime: Handle,
}

/// Rows that a store keeps in place until this value is dropped or the connection ends.
#[derive(Debug)]
pub(crate) struct Lease {
    link: Arc<Link>,
    id: u64,
}

/// A sent request with an unread answer. Dropping it ends the connection.
#[derive(Debug)]
pub(crate) struct PendingAnswer {
    link: Arc<Link>,
    frames: OwnedMutexGuard<Option<Frames>>,
    is_answered: bool,
}

/// The body of an answer.
pub(crate) struct Body<'a> {
    pending: &'a mut PendingAnswer,
    /// Unread bytes of the frame.
    left: usize,
    buffer: Vec<u8>,
    at: usize,
}

impl Link {
    pub(super) fn new(what: Arc<str>, frames: Frames, runtime: Handle) -> Arc<Self> {
        let frames = Arc::new(Mutex::new(Some(frames)));
        let (leases, is_retired) = (AtomicU64::new(0), AtomicBool::new(false));
        Arc::new(Self { what, frames, is_retired, leases, runtime })
    }

    pub(super) fn is_retired(&self) -> bool {
        self.is_retired.load(Ordering::Acquire)
    }

    pub(super) fn retire(&self) {
        self.is_retired.store(true, Ordering::Release);
    }

    /// Closes the connection.
    fn break_off(&self, frames: &mut Option<Frames>) {
        *frames = None;
        self.retire();
    }

    /// Requests pins on rows. Returns `None` if the link broke before the request was sent.
    pub(super) async fn pin(
        self: &Arc<Self>,
        indices: &[u64],
        is_sample: bool,
    ) -> Result<Option<(PendingAnswer, Lease)>> {
        let id = self.leases.fetch_add(1, Ordering::Relaxed);
        let body: Vec<u8> = indices.iter().flat_map(|index| index.to_le_bytes()).collect();
        let head = PinHead { lease: id, is_sample }.encode();
        // The lease is created before the request is sent, so that the pins of an abandoned request are released.
        let lease = Lease { link: Arc::clone(self), id };
        let pending = self.ask(FrameKind::PinRows, &head, &body).await?;
        Ok(pending.map(|pending| (pending, lease)))
    }

    /// Sends a request after the previous one was answered. Returns `None` if the link is broken by then.
    async fn ask(
        self: &Arc<Self>,
        kind: FrameKind,
        head: &[u8],
        body: &[u8],
    ) -> Result<Option<PendingAnswer>> {
        if body.len() > MAX_REQUEST_BYTES {
            return Err(Error::invalid(format!(
                "a request of {} bytes to {}; the limit is {MAX_REQUEST_BYTES}; request fewer trajectories at a time",
                body.len(),
                self.what
            )));
        }
        let frames = Arc::clone(&self.frames).lock_owned().await;
        if frames.is_none() {
            return Ok(None);
        }
        let mut pending = PendingAnswer { link: Arc::clone(self), frames, is_answered: false };
        pending.send(kind, head, body).await?;
        Ok(Some(pending))
    }

    fn abandoned(&self) -> Error {
        self.lost(&"an earlier call was abandoned, or failed")
    }

    fn lost(&self, why: &dyn Display) -> Error {
        Error::unavailable(format!("the connection to {} was lost: {why}", self.what))
    }
}

impl Lease {
    /// Requests steps of rows that were pinned over the same connection.
    pub(crate) async fn read(&self, windows: &[WindowRequest], rows: &[RowRequest]) -> Result<PendingAnswer> {
        let (head, body) = (WindowRequest::encode_all(windows), RowRequest::encode_all(rows));
        self.link.ask(FrameKind::ReadRows, &head, &body).await?.ok_or_else(|| self.link.abandoned())
    }

    /// Returns whether both leases are on one connection, so that one request can cover the rows of both leases.
    pub(crate) fn is_with(&self, other: &Lease) -> bool {
        Arc::ptr_eq(&self.link, &other.link)
    }

    /// Returns the store's description, for errors.
    pub(crate) fn what(&self) -> &str {
        &self.link.what
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let (link, id) = (Arc::clone(&self.link), self.id);
        self.link.runtime.spawn(async move {
            let mut frames = link.frames.lock().await;
            let Some(open) = &*frames else { return };
            let head = id.to_le_bytes();
            let release = open.send_frame(FrameKind::ReleaseRows, &head, &[]);
            if !matches!(tokio::time::timeout(RELEASE_PATIENCE, release).await, Ok(Ok(()))) {
                // A part of the frame may have been sent.
                link.break_off(&mut frames);
            }
        });
    }
}

impl PendingAnswer {
    async fn send(&mut self, kind: FrameKind, head: &[u8], body: &[u8]) -> Result<()> {
        self.is_answered = false;
        let link = Arc::clone(&self.link);
        self.frames()?.send_frame(kind, head, body).await.map_err(|error| link.lost(&error))
    }

    /// Requests the steps of further rows on this connection. Call this after the current answer has been read. No
    /// other call gets the connection in between, since that could cause a deadlock: the other call could wait for
    /// another store, whose answer this call has not read yet.
    pub(crate) async fn read_more(&mut self, windows: &[WindowRequest], rows: &[RowRequest]) -> Result<()> {
        let (head, body) = (WindowRequest::encode_all(windows), RowRequest::encode_all(rows));
        self.send(FrameKind::ReadRows, &head, &body).await
    }

    fn frames(&mut self) -> Result<&mut Frames> {
        self.frames.as_mut().ok_or_else(|| self.link.abandoned())
    }

    /// Reads the header of the answer.
    async fn header(&mut self, expected: FrameKind) -> Result<FrameHeader> {
        let link = Arc::clone(&self.link);
        let next = self.frames()?.next().await.map_err(|error| link.lost(&error))?;
        let Some((header, head)) = next else {
            return Err(link.lost(&"its process has ended, or has closed the store"));
        };
        match header.kind {
            kind if kind == expected => Ok(header),
            FrameKind::RowsRefused if header.body_len() == 0 => {
                // The answer was read completely, so the connection stays usable.
                self.is_answered = true;
                Err(decode_error(&head, &link.what))
            }
            other => Err(Error::corrupt(format!(
                "{} answered with a frame of kind {other:?}, not {expected:?}",
                link.what
            ))),
        }
    }

    /// Reads the pinned rows, as many as were requested.
    pub(crate) async fn pinned(mut self, count: usize) -> Result<Vec<PinnedRowInfo>> {
        let link = Arc::clone(&self.link);
        let header = self.header(FrameKind::PinnedRows).await?;
        let read = self.frames()?.read_bytes(header.body_len()).await;
        let bytes = read.map_err(|error| link.lost(&error))?;
        self.is_answered = true;
        PinnedRowInfo::decode_all(&bytes, count, &link.what)
    }

    /// Returns the body of an answer with the expected number of bytes.
    pub(crate) async fn rows(&mut self, bytes: u64) -> Result<Body<'_>> {
        let header = self.header(FrameKind::Rows).await?;
        let left = header.body_len();
        expect_bytes(left, usize::try_from(bytes).unwrap_or(usize::MAX), &self.link.what)?;
        self.is_answered = left == 0;
        Ok(Body { pending: self, left, buffer: Vec::new(), at: 0 })
    }
}

impl Drop for PendingAnswer {
    fn drop(&mut self) {
        if !self.is_answered {
            self.link.break_off(&mut self.frames);
        }
    }
}

impl Body<'_> {
    /// Reads bytes that the caller expects to follow.
    pub(crate) async fn read(&mut self, mut out: &mut [u8]) -> Result<()> {
        while !out.is_empty() {
            if self.at == self.buffer.len() && out.len() >= DIRECT_BYTES {
                return self.fetch(out).await;
            }
            if self.at == self.buffer.len() {
                let mut buffer = std::mem::take(&mut self.buffer);
                buffer.resize(self.left.min(READ_BYTES), 0);
                self.fetch(&mut buffer).await?;
                (self.buffer, self.at) = (buffer, 0);
            }
            let now = out.len().min(self.buffer.len() - self.at);
            let (first, rest) = out.split_at_mut(now);
            first.copy_from_slice(&self.buffer[self.at..self.at + now]);
            self.at += now;
            out = rest;
        }
        Ok(())
    }

    async fn fetch(&mut self, out: &mut [u8]) -> Result<()> {
        let link = Arc::clone(&self.pending.link);
        self.left = self.left.checked_sub(out.len()).filter(|_| !out.is_empty()).ok_or_else(|| {
            Error::corrupt(format!("the answer from {} is too short for its rows", link.what))
        })?;
        self.pending.frames()?.read_body(out).await.map_err(|error| link.lost(&error))?;
        self.pending.is_answered = self.left == 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use relive_transport::Socket;
    use tokio::net::{TcpListener, TcpStream};

    /// A release waits for a long call on the same link, as long as it takes.
    #[tokio::test(start_paused = true)]
    async fn a_release_that_waits_for_its_turn_does_not_close_the_link() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let mut server = Frames::new(Socket::over_tcp(listener.accept().await.unwrap().0).unwrap());
        let link = Link::new("it".into(), Frames::new(Socket::over_tcp(socket).unwrap()), Handle::current());
        let (pending, lease) = link.pin(&[1], true).await.unwrap().unwrap();
        drop(lease);
        // The release begins to wait.
        tokio::task::yield_now().await;
        tokio::time::advance(2 * RELEASE_PATIENCE).await;
        let (request, _) = server.next().await.unwrap().unwrap();
        server.read_bytes(request.body_len()).await.unwrap();
        let rows = PinnedRowInfo::encode_all(&[PinnedRowInfo::NONE]);
        server.send_frame(FrameKind::PinnedRows, &[], &rows).await.unwrap();
        pending.pinned(1).await.unwrap();
        let (release, _) = server.next().await.unwrap().expect("the link is open");
        assert_eq!(release.kind, FrameKind::ReleaseRows);
        assert!(!link.is_retired());
    }
}
