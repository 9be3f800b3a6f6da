//! Bytes on their way between clients and tables, over all connections, and the bound on them.
//!
//! What counts is what the server holds for a client alone: what has come of an insert request until its items are handed to their
//! tables, and samples from when they are put together until the client's side of the system has taken them. Announcements do not
//! count: they cost clients nothing. Whoever needs room takes a [`Load`], and waits while there is none; a request that has begun goes on. A load waits for nothing but its client, so those who wait need only watch the clients:
//! a connection whose loads have not moved for too long while others wait is cut.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep};

use crate::limits::{
    MIN_CLIENT_BYTES_PER_SECOND, REFUSAL_LOG_INTERVAL, ROOM_RECHECK, STALLED_AFTER, WOKEN_FOR_ROOM,
};

/// The account of all connections.
#[derive(Debug)]
pub(crate) struct Traffic {
    max_bytes: u64,
    /// Bytes of all loads. A load is let in as long as there is any room: one that is larger than the bound must pass, too.
    bytes: AtomicU64,
    waiting: AtomicU64,
    cut: AtomicU64,
    /// What all times are counted from.
    began: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next_id: u64,
    parts: HashMap<u64, Arc<Part>>,
    /// Those who wait, in their order.
    wakers: VecDeque<(u64, Waker)>,
    told_at: Option<Instant>,
}

/// The part of one connection.
#[derive(Debug)]
struct Part {
    peer: Arc<str>,
    bytes: AtomicU64,
    /// When a load was last taken or given back.
    moved_at_ms: AtomicU64,
    cut: Notify,
}

/// How much is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TrafficStatus {
    pub(crate) bytes: u64,
    pub(crate) max_bytes: u64,
    pub(crate) waiting: u64,
    /// Connections that were cut because others waited for what they held.
    pub(crate) cut: u64,
}

impl Traffic {
    pub(crate) fn new(max_bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            max_bytes,
            bytes: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            cut: AtomicU64::new(0),
            began: Instant::now(),
            state: Mutex::default(),
        })
    }

    pub(crate) fn status(&self) -> TrafficStatus {
        TrafficStatus {
            bytes: self.bytes.load(Ordering::Relaxed),
            max_bytes: self.max_bytes,
            waiting: self.waiting.load(Ordering::Relaxed),
            cut: self.cut.load(Ordering::Relaxed),
        }
    }

    /// A connection that has come.
    pub(crate) fn enter(self: &Arc<Self>, peer: &Arc<str>) -> Line {
        let moved_at_ms = AtomicU64::new(self.now_ms());
        let (peer, cut) = (Arc::clone(peer), Notify::new());
        let part = Arc::new(Part { peer, bytes: AtomicU64::new(0), moved_at_ms, cut });
        let mut state = self.state.lock();
        let id = state.take_id();
        state.parts.insert(id, Arc::clone(&part));
        Line(Arc::new(Registered { traffic: Arc::clone(self), id, part }))
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn has_room(&self) -> bool {
        self.bytes.load(Ordering::SeqCst) < self.max_bytes
    }

    fn take(&self, bytes: u64) -> bool {
        let more = |taken: u64| (taken < self.max_bytes).then(|| taken.saturating_add(bytes));
        self.bytes.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) == 0 || !self.has_room() {
            return;
        }
        // Several, since one of them may be a stream that nobody polls.
        let mut state = self.state.lock();
        let some = state.wakers.len().min(WOKEN_FOR_ROOM);
        let wakers: Vec<Waker> = state.wakers.drain(..some).map(|(_, waker)| waker).collect();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Cuts the connections that hold up those who wait.
    fn cut_stalled(&self) {
        let now_ms = self.now_ms();
        let state = self.state.lock();
        for part in state.parts.values().filter(|part| part.is_stalled(now_ms)) {
            // Counted once: it is not stalled again before it had time to end.
            part.moved_at_ms.store(now_ms, Ordering::Relaxed);
            self.cut.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(
                peer = &*part.peer,
                bytes = part.bytes.load(Ordering::Relaxed),
                "connection cut: its client is too slow, and others wait for what is on its way to or from it"
            );
            part.cut.notify_one();
        }
    }

    fn tell(&self) {
        let mut state = self.state.lock();
        if state.told_at.is_none_or(|at| at.elapsed() >= REFUSAL_LOG_INTERVAL) {
            state.told_at = Some(Instant::now());
            drop(state);
            let TrafficStatus { bytes, max_bytes, waiting, .. } = self.status();
            tracing::warn!(
                bytes,
                waiting,
                "streams wait: {max_bytes} bytes may be in flight at once, which is max_bytes_in_flight"
            );
        }
    }
}

impl State {
    fn take_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}

impl Part {
    fn is_stalled(&self, now_ms: u64) -> bool {
        let bytes = self.bytes.load(Ordering::Relaxed);
        let allowed = STALLED_AFTER + Duration::from_secs(bytes / MIN_CLIENT_BYTES_PER_SECOND);
        let still = now_ms.saturating_sub(self.moved_at_ms.load(Ordering::Relaxed));
        bytes > 0 && u128::from(still) > allowed.as_millis()
    }
}

/// One connection, as its streams see it; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Line(Arc<Registered>);

#[derive(Debug)]
struct Registered {
    traffic: Arc<Traffic>,
    id: u64,
    part: Arc<Part>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.traffic.state.lock().parts.remove(&self.id);
    }
}

impl Line {
    /// Ready when the connection must end because others wait for what it holds.
    pub(crate) async fn cut(&self) {
        self.0.part.cut.notified().await;
    }

    /// The way for one stream.
    pub(crate) fn passage(&self) -> Passage {
        Passage { line: self.clone(), waiting: None }
    }

    fn load(&self, bytes: u64) -> Load {
        let Registered { traffic, part, .. } = &*self.0;
        part.moved_at_ms.store(traffic.now_ms(), Ordering::Relaxed);
        part.bytes.fetch_add(bytes, Ordering::Relaxed);
        Load { line: self.clone(), bytes }
    }
}

/// Where one stream waits for room.
#[derive(Debug)]
pub(crate) struct Passage {
    line: Line,
    waiting: Option<Waiting>,
}

impl Passage {
    /// Room for `bytes`, as soon as there is any.
    pub(crate) fn poll_take(&mut self, bytes: u64, cx: &mut Context<'_>) -> Poll<Load> {
        let traffic = &self.line.0.traffic;
        loop {
            if traffic.take(bytes) {
                self.waiting = None;
                return Poll::Ready(self.line.load(bytes));
            }
            let waiting = self.waiting.get_or_insert_with(|| Waiting::new(traffic));
            waiting.set_waker(cx.waker());
            // What was given back before the waker was there has woken nobody.
            if traffic.has_room() {
                continue;
            }
            if waiting.recheck.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            traffic.cut_stalled();
            waiting.recheck.as_mut().reset(Instant::now() + ROOM_RECHECK);
        }
    }

    /// As [`poll_take`](Self::poll_take). Dropping the future ends the wait.
    pub(crate) async fn take(&mut self, bytes: u64) -> Load {
        let attempt = Attempt(self);
        poll_fn(|cx| attempt.0.poll_take(bytes, cx)).await
    }
}

/// Ends a wait that is given up.
struct Attempt<'a>(&'a mut Passage);

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.0.waiting = None;
    }
}

#[derive(Debug)]
struct Waiting {
    traffic: Arc<Traffic>,
    id: u64,
    recheck: Pin<Box<Sleep>>,
}

impl Waiting {
    fn new(traffic: &Arc<Traffic>) -> Self {
        traffic.waiting.fetch_add(1, Ordering::SeqCst);
        traffic.tell();
        let id = traffic.state.lock().take_id();
        Self { traffic: Arc::clone(traffic), id, recheck: Box::pin(tokio::time::sleep(ROOM_RECHECK)) }
    }

    fn set_waker(&self, waker: &Waker) {
        let mut state = self.traffic.state.lock();
        match state.wakers.iter_mut().find(|(id, _)| *id == self.id) {
            Some((_, old)) => old.clone_from(waker),
            None => state.wakers.push_back((self.id, waker.clone())),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.traffic.waiting.fetch_sub(1, Ordering::SeqCst);
        self.traffic.state.lock().wakers.retain(|(id, _)| *id != self.id);
    }
}

/// Bytes that are on their way, until it is dropped.
#[derive(Debug)]
pub(crate) struct Load {
    line: Line,
    bytes: u64,
}

impl Load {
    /// So many bytes have come by now.
    pub(crate) fn grow_to(&mut self, bytes: u64) {
        let more = bytes.saturating_sub(self.bytes);
        if more == 0 {
            return;
        }
        self.bytes += more;
        let Registered { traffic, part, .. } = &*self.line.0;
        part.moved_at_ms.store(traffic.now_ms(), Ordering::Relaxed);
        part.bytes.fetch_add(more, Ordering::Relaxed);
        traffic.bytes.fetch_add(more, Ordering::SeqCst);
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let Registered { traffic, part, .. } = &*self.line.0;
        part.moved_at_ms.store(traffic.now_ms(), Ordering::Relaxed);
        part.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        traffic.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    fn traffic(max_bytes: u64) -> (Arc<Traffic>, Line, Line) {
        let traffic = Traffic::new(max_bytes);
        let [one, other] = ["one", "other"].map(|peer| traffic.enter(&Arc::from(peer)));
        (traffic, one, other)
    }

    #[tokio::test(start_paused = true)]
    async fn a_load_waits_for_room_and_one_that_is_too_large_for_any_passes_alone() {
        let (traffic, one, other) = traffic(100);
        let first = one.passage().take(1_000).await;
        let mut passage = other.passage();
        assert!(timeout(ROOM_RECHECK * 3, passage.take(1)).await.is_err());
        assert_eq!(traffic.status(), TrafficStatus { bytes: 1_000, max_bytes: 100, waiting: 0, cut: 0 });
        let (second, ()) = tokio::join!(passage.take(1), async { drop(first) });
        assert_eq!(traffic.status().bytes, 1);
        drop(second);
        assert_eq!(traffic.status().bytes, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_cut_while_nobody_waits_and_then_only_who_does_not_move() {
        let (traffic, stalled, moving) = traffic(100);
        let held = stalled.passage().take(90).await;
        drop(timeout(STALLED_AFTER * 4, std::future::pending::<()>()).await);
        assert_eq!(traffic.status().cut, 0);
        let mine = moving.passage().take(10).await;
        let connection = async {
            stalled.cut().await;
            drop(held);
        };
        let third = traffic.enter(&Arc::from("third"));
        let mut passage = third.passage();
        let (waited, (), is_cut) =
            tokio::join!(passage.take(5), connection, timeout(ROOM_RECHECK * 3, moving.cut()));
        assert!(is_cut.is_err());
        assert_eq!(traffic.status(), TrafficStatus { bytes: 15, max_bytes: 100, waiting: 0, cut: 1 });
        drop((mine, waited));
    }

    #[tokio::test(start_paused = true)]
    async fn what_grows_takes_room_from_others_and_never_waits() {
        let (traffic, one, other) = traffic(100);
        let mut growing = one.passage().take(0).await;
        growing.grow_to(150);
        growing.grow_to(120);
        assert_eq!(traffic.status().bytes, 150);
        let mut passage = other.passage();
        assert!(timeout(ROOM_RECHECK * 3, passage.take(0)).await.is_err());
        drop(growing);
        assert_eq!(passage.take(0).await.bytes + traffic.status().bytes, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn all_who_wait_get_through_in_the_end() {
        let (traffic, line, _) = traffic(10);
        let all = (0..200).map(|_| {
            let mut passage = line.passage();
            tokio::spawn(async move {
                let load = passage.take(7).await;
                tokio::task::yield_now().await;
                drop(load);
            })
        });
        for one in all.collect::<Vec<_>>() {
            one.await.unwrap();
        }
        assert_eq!(traffic.status(), TrafficStatus { bytes: 0, max_bytes: 10, waiting: 0, cut: 0 });
    }
}
