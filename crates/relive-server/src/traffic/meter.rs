//! Measures whether a client moves its bytes fast enough.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

use super::host::{Host, NEVER, ms_for};
use crate::limits::STALLED_AFTER;

/// The state of one connection.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) peer: Arc<str>,
    host: Arc<Host>,
    is_cut: AtomicBool,
    cut: Notify,
}

/// The current load of one stream. All times are relative to the creation of the account.
#[derive(Debug)]
pub(super) struct Meter {
    pub(super) id: u64,
    pub(super) client: Arc<Client>,
    /// The number of bytes that the load holds.
    bytes: AtomicU64,
    began_ms: AtomicU64,
    /// The number of bytes that the client has moved in all its loads, and the value of this number when the current
    /// load began or others began to wait.
    moved: Arc<AtomicU64>,
    moved_before: AtomicU64,
    /// The time during which the load has waited for room since it began, or since others began to wait.
    excused_ms: AtomicU64,
    waits_since_ms: AtomicU64,
    /// The time that earlier loads of the same host have wasted.
    inherited_ms: AtomicU64,
    is_beyond: AtomicBool,
}

impl Client {
    pub(super) fn new(peer: Arc<str>, host: Arc<Host>) -> Self {
        Self { peer, host, is_cut: AtomicBool::new(false), cut: Notify::new() }
    }

    /// Ends the connection. Returns false if this has already been requested.
    pub(super) fn cut(&self) -> bool {
        let was_cut = self.is_cut.swap(true, Ordering::Relaxed);
        self.cut.notify_one();
        !was_cut
    }

    pub(super) async fn is_cut(&self) {
        self.cut.notified().await;
    }
}

impl Meter {
    pub(super) fn new(id: u64, client: Arc<Client>) -> Self {
        Self {
            id,
            client,
            bytes: AtomicU64::new(0),
            began_ms: AtomicU64::new(0),
            moved: Arc::default(),
            moved_before: AtomicU64::new(0),
            excused_ms: AtomicU64::new(0),
            waits_since_ms: AtomicU64::new(NEVER),
            inherited_ms: AtomicU64::new(0),
            is_beyond: AtomicBool::new(false),
        }
    }

    /// Begins a load.
    pub(super) fn begin(&self, bytes: u64, now_ms: u64) {
        self.mark(now_ms);
        self.began_ms.store(now_ms, Ordering::Relaxed);
        self.inherited_ms.store(self.client.host.wasted_ms(), Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Restarts the measurement of time.
    pub(super) fn mark(&self, now_ms: u64) {
        self.moved_before.store(self.moved.load(Ordering::Relaxed), Ordering::Relaxed);
        self.excused_ms.store(0, Ordering::Relaxed);
        if self.waits_since_ms.load(Ordering::Relaxed) != NEVER {
            self.waits_since_ms.store(now_ms, Ordering::Relaxed);
        }
    }

    /// Adds bytes to the load.
    pub(super) fn grow(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the counter of the bytes that the client moves.
    pub(super) fn moved(&self) -> &Arc<AtomicU64> {
        &self.moved
    }

    /// Records that the load is waiting for room. This time is not charged to the client.
    pub(super) fn begin_wait(&self, now_ms: u64) {
        let (never, ordering) = (NEVER, Ordering::Relaxed);
        // If the load is already waiting, the beginning of that wait is kept.
        let _ = self.waits_since_ms.compare_exchange(never, now_ms, ordering, ordering);
    }

    /// Records that the load is no longer waiting.
    pub(super) fn end_wait(&self, now_ms: u64) {
        let since = self.waits_since_ms.swap(NEVER, Ordering::Relaxed);
        if since != NEVER {
            self.excused_ms.fetch_add(now_ms.saturating_sub(since), Ordering::Relaxed);
        }
    }

    pub(super) fn set_beyond(&self, is_beyond: bool) {
        self.is_beyond.store(is_beyond, Ordering::Relaxed);
    }

    /// Returns whether the load may exceed the bound.
    pub(super) fn is_beyond(&self) -> bool {
        self.is_beyond.load(Ordering::Relaxed)
    }

    /// Records that the load ended after it had arrived completely.
    pub(super) fn arrived(&self) {
        self.bytes.store(0, Ordering::Relaxed);
        if self.client.host.wasted_ms() > 0 {
            self.client.host.reduce_wasted(self.moved_since());
        }
    }

    /// Records that the load ended before it had arrived completely.
    pub(super) fn abandoned(&self, contended_since_ms: Option<u64>, now_ms: u64) {
        if let Some(since_ms) = contended_since_ms {
            self.client.host.add_wasted(self.wasted_ms(since_ms, now_ms), since_ms);
        }
        self.bytes.store(0, Ordering::Relaxed);
    }

    /// Returns whether the client has transferred less than required since `since_ms`, when others began to wait.
    pub(super) fn is_stalled(&self, since_ms: u64, now_ms: u64) -> bool {
        self.bytes() > 0 && u128::from(self.wasted_ms(since_ms, now_ms)) > STALLED_AFTER.as_millis()
    }

    /// Returns the time that the client took beyond its allowance for the bytes that it moved.
    fn wasted_ms(&self, since_ms: u64, now_ms: u64) -> u64 {
        let inherited = match self.client.host.is_charged_for(since_ms) {
            true => self.inherited_ms.load(Ordering::Relaxed),
            false => 0,
        };
        let since = since_ms.max(self.began_ms.load(Ordering::Relaxed));
        let waits = match self.waits_since_ms.load(Ordering::Relaxed) {
            NEVER => 0,
            waits => now_ms.saturating_sub(waits.max(since)),
        };
        let taken =
            now_ms.saturating_sub(since).saturating_sub(self.excused_ms.load(Ordering::Relaxed) + waits);
        (taken + inherited).saturating_sub(ms_for(self.moved_since()))
    }

    fn moved_since(&self) -> u64 {
        self.moved.load(Ordering::Relaxed).saturating_sub(self.moved_before.load(Ordering::Relaxed))
    }
}
