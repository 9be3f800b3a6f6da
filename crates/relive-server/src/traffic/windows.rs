//! Counts the bytes that clients have sent and that no stream has read. They are in the HTTP/2 windows, which bound
//! each connection but not all connections together.
//!
//! Bytes are counted when they arrive at the socket, and subtracted when a stream reads them. A connection is not read
//! while it has more than [`UNREAD_BYTES_PER_CONNECTION`](crate::limits::UNREAD_BYTES_PER_CONNECTION) unread bytes and
//! all connections together have too many. During this time, its answers to pings are not read either, so the
//! connection is closed if this lasts too long. Bytes for ended streams are counted until the connection has no
//! streams; a connection without streams therefore has no unread bytes.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use relive_engine::LogThrottle;
use tokio::time::{Instant, Sleep};

use crate::limits::{ROOM_RECHECK, UNREAD_BYTES_PER_CONNECTION};

/// The unread bytes of all connections.
#[derive(Debug)]
pub(super) struct Windows {
    max_bytes: u64,
    bytes: AtomicU64,
    log_throttle: Mutex<LogThrottle>,
}

/// The unread bytes of one connection.
#[derive(Debug)]
pub(crate) struct Window {
    all: Arc<Windows>,
    bytes: AtomicU64,
    streams: AtomicU64,
    /// The waker of the connection while the connection must not be read.
    waker: Mutex<Option<Waker>>,
}

impl Windows {
    pub(super) fn new(max_bytes: u64) -> Arc<Self> {
        Arc::new(Self { max_bytes, bytes: AtomicU64::new(0), log_throttle: Mutex::default() })
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn log_paused(&self) {
        let due = self.log_throttle.lock().note(Instant::now().into_std());
        if due.is_some() {
            tracing::warn!(
                bytes = self.bytes(),
                "paused reading from connections with unread requests: the limit of {} bytes (max_bytes_in_flight) is reached",
                self.max_bytes
            );
        }
    }
}

impl Window {
    pub(super) fn new(all: Arc<Windows>) -> Self {
        Self { all, bytes: AtomicU64::new(0), streams: AtomicU64::new(0), waker: Mutex::default() }
    }

    /// Records that `bytes` for streams have arrived at the socket.
    pub(crate) fn received(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::SeqCst);
        self.all.bytes.fetch_add(bytes, Ordering::SeqCst);
    }

    /// Records that a stream has read `bytes`.
    pub(crate) fn taken(&self, bytes: u64) {
        let less = |unread: u64| Some(unread.saturating_sub(bytes));
        let before =
            self.bytes.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).unwrap_or_else(|now| now);
        self.all.bytes.fetch_sub(before.min(bytes), Ordering::SeqCst);
        if before > UNREAD_BYTES_PER_CONNECTION {
            let waker = self.waker.lock().take();
            waker.into_iter().for_each(Waker::wake);
        }
    }

    /// Records that a stream has begun.
    pub(crate) fn enter(&self) {
        self.streams.fetch_add(1, Ordering::SeqCst);
    }

    /// Records that a stream has ended. Bytes that arrived for earlier streams are dropped with the last one.
    pub(crate) fn leave(&self) {
        if self.streams.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.taken(u64::MAX);
        }
    }

    /// Becomes ready when the connection may be read.
    pub(crate) fn poll_open(&self, waiting: &mut Option<Pin<Box<Sleep>>>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.is_open() {
                *waiting = None;
                return Poll::Ready(());
            }
            *self.waker.lock() = Some(cx.waker().clone());
            if self.is_open() {
                continue;
            }
            if waiting.is_none() {
                self.all.log_paused();
            }
            let recheck = waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(ROOM_RECHECK)));
            if recheck.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            recheck.as_mut().reset(Instant::now() + ROOM_RECHECK);
        }
    }

    fn is_open(&self) -> bool {
        self.bytes.load(Ordering::SeqCst) <= UNREAD_BYTES_PER_CONNECTION
            || self.all.bytes.load(Ordering::SeqCst) < self.all.max_bytes
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.taken(u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::time::timeout;

    use super::*;

    async fn is_open(window: &Window) -> bool {
        let mut waiting = None;
        timeout(ROOM_RECHECK * 3, poll_fn(|cx| window.poll_open(&mut waiting, cx))).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn connections_are_not_read_beyond_the_total_unread_bound() {
        let all = Windows::new(3 * UNREAD_BYTES_PER_CONNECTION);
        let [one, other, small] = [(); 3].map(|()| Window::new(Arc::clone(&all)));
        one.received(2 * UNREAD_BYTES_PER_CONNECTION);
        assert!(is_open(&one).await);
        other.received(2 * UNREAD_BYTES_PER_CONNECTION);
        small.received(1);
        assert_eq!([is_open(&one).await, is_open(&other).await, is_open(&small).await], [false, false, true]);
        one.taken(UNREAD_BYTES_PER_CONNECTION);
        assert!(is_open(&one).await, "little is unread of it");
        assert!(!is_open(&other).await);
        drop(one);
        assert!(is_open(&other).await);
        drop((other, small));
        assert_eq!(all.bytes(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reading_stream_unblocks_its_connection_at_once() {
        let all = Windows::new(1);
        let window = Window::new(Arc::clone(&all));
        window.received(UNREAD_BYTES_PER_CONNECTION + 1);
        let mut waiting = None;
        let began = Instant::now();
        let open = poll_fn(|cx| window.poll_open(&mut waiting, cx));
        tokio::join!(open, async { window.taken(1) });
        assert_eq!(began.elapsed().as_millis(), 0);
    }

    #[test]
    fn bytes_of_ended_streams_are_forgotten_with_the_last_stream() {
        let all = Windows::new(1);
        let window = Window::new(Arc::clone(&all));
        (0..2).for_each(|_| window.enter());
        window.received(100);
        window.leave();
        assert_eq!(all.bytes(), 100);
        window.leave();
        assert_eq!(all.bytes(), 0);
    }
}
