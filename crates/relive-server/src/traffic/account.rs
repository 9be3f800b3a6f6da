//! The account of all connections.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use parking_lot::{Mutex, MutexGuard};
use relive_engine::LogThrottle;
use tokio::time::Instant;

use super::host::{Host, Hosts};
use super::meter::{Client, Meter};
use super::windows::Windows;
use crate::limits::{ROOM_RECHECK, STALLED_AFTER, WOKEN_FOR_ROOM};

/// The account of all connections.
#[derive(Debug)]
pub(crate) struct Traffic {
    max_bytes: u64,
    /// The bytes of all loads.
    bytes: AtomicU64,
    /// The number of all waiting streams. Streams that have begun a request and have not yet been woken are also
    /// counted separately, because they take precedence.
    waiting: AtomicU64,
    growing: AtomicU64,
    cut: AtomicU64,
    /// The time at which a waiting stream last checked for stalled clients.
    checked_ms: AtomicU64,
    pub(super) windows: Arc<Windows>,
    /// The point in time from which all times are measured.
    began: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next_id: u64,
    meters: HashMap<u64, Arc<Meter>>,
    hosts: Hosts,
    /// The waiting streams: streams that have begun a request, ordered by stream number, and the other streams, in
    /// order of arrival.
    growing: BTreeMap<u64, Waker>,
    beginning: BTreeMap<u64, Waker>,
    /// The stream with the load that may exceed the bound.
    beyond: Option<u64>,
    contention: Contention,
    log_throttle: LogThrottle,
}

/// A period in which at least one stream is waiting for room. Interruptions shorter than [`STALLED_AFTER`] are ignored,
/// so that a client cannot reset the measurement by briefly not waiting.
#[derive(Debug, Default, Clone, Copy)]
struct Contention {
    since_ms: u64,
    last_ms: Option<u64>,
}

/// The reason why a stream is waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// To begin; with the number of the wait.
    Begin(u64),
    /// To continue; with the number of the stream.
    Grow(u64),
}

/// The status of the bytes in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TrafficStatus {
    pub(crate) bytes: u64,
    pub(crate) max_bytes: u64,
    pub(crate) waiting: u64,
    /// The number of connections that were dropped because others waited for the memory that they held.
    pub(crate) cut: u64,
}

impl Traffic {
    pub(crate) fn new(max_bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            max_bytes,
            bytes: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            growing: AtomicU64::new(0),
            cut: AtomicU64::new(0),
            checked_ms: AtomicU64::new(0),
            windows: Windows::new(max_bytes),
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

    /// Returns the bytes that clients have sent over HTTP/2 and that no stream has read.
    pub(crate) fn unread_bytes(&self) -> u64 {
        self.windows.bytes()
    }

    /// Returns the wasted time of the clients on the host of `peer`.
    pub(super) fn host_of(&self, peer: &str) -> Arc<Host> {
        let mut state = self.state.lock();
        let contended_since_ms = state.contention.since_ms;
        state.hosts.of(peer, contended_since_ms)
    }

    pub(super) fn register(&self, client: &Arc<Client>) -> Arc<Meter> {
        let mut state = self.state.lock();
        let meter = Arc::new(Meter::new(state.take_id(), Arc::clone(client)));
        state.meters.insert(meter.id, Arc::clone(&meter));
        meter
    }

    pub(super) fn deregister(&self, id: u64) {
        self.state.lock().meters.remove(&id);
    }

    pub(super) fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Takes room for a load that begins with `bytes`, if these bytes fit or no other load currently exceeds the bound.
    pub(super) fn begin(&self, meter: &Meter, bytes: u64) -> bool {
        if self.growing.load(Ordering::SeqCst) > 0 {
            return false;
        }
        let has_any = |taken: u64| taken < self.max_bytes;
        self.take_if(bytes, |taken| has_any(taken) && self.fits(taken, bytes))
            || self.take_beyond_limit(meter, bytes, has_any)
    }

    /// Takes room for further bytes of a load that has begun.
    pub(super) fn grow(&self, meter: &Meter, bytes: u64) -> bool {
        self.take_if(bytes, |taken| self.fits(taken, bytes)) || self.take_beyond_limit(meter, bytes, |_| true)
    }

    /// Takes room for `bytes`, whether or not there is any.
    pub(super) fn take_now(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::SeqCst);
    }

    fn fits(&self, taken: u64, bytes: u64) -> bool {
        taken.saturating_add(bytes) <= self.max_bytes
    }

    fn take_if(&self, bytes: u64, may: impl Fn(u64) -> bool) -> bool {
        let more = |taken: u64| may(taken).then(|| taken.saturating_add(bytes));
        self.bytes.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok()
    }

    fn take_beyond_limit(&self, meter: &Meter, bytes: u64, may: impl Fn(u64) -> bool) -> bool {
        let mut state = self.state.lock();
        let is_free = state.beyond.is_none_or(|id| id == meter.id);
        let taken = is_free && self.take_if(bytes, may);
        if taken {
            state.beyond = Some(meter.id);
            meter.set_beyond(true);
        }
        taken
    }

    /// Releases all room that a load of the stream has taken. The stream is no longer waiting.
    pub(super) fn give_back(&self, meter: &Meter, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::SeqCst);
        let was_beyond = meter.is_beyond();
        if !was_beyond && self.waiting.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut state = self.state.lock();
        let mut wakers = Vec::new();
        if was_beyond {
            meter.set_beyond(false);
            state.beyond = None;
            wakers.extend(self.next_beyond(&mut state));
        }
        // Several streams are woken, because a stream that is woken is not necessarily polled.
        self.wake(state, wakers, WOKEN_FOR_ROOM);
    }

    /// Wakes `wakers` and, if there is room, some waiting streams: first the streams that have begun a request, then
    /// the others.
    fn wake(&self, mut state: MutexGuard<'_, State>, mut wakers: Vec<Waker>, most: usize) {
        let has_begun = !state.growing.is_empty();
        while self.has_room()
            && wakers.len() < most
            && let Some(waker) = self.next_waiting(&mut state, has_begun)
        {
            wakers.push(waker);
        }
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Lets the first stream that has begun a request exceed the bound.
    fn next_beyond(&self, state: &mut State) -> Option<Waker> {
        let (id, waker) = state.growing.pop_first()?;
        self.growing.fetch_sub(1, Ordering::SeqCst);
        if let Some(meter) = state.meters.get(&id) {
            meter.end_wait(self.now_ms());
            meter.set_beyond(true);
            state.beyond = Some(id);
        }
        Some(waker)
    }

    fn next_waiting(&self, state: &mut State, has_begun: bool) -> Option<Waker> {
        if !has_begun {
            return state.beginning.pop_first().map(|(_, waker)| waker);
        }
        let (id, waker) = state.growing.pop_first()?;
        self.growing.fetch_sub(1, Ordering::SeqCst);
        if let Some(meter) = state.meters.get(&id) {
            meter.end_wait(self.now_ms());
        }
        Some(waker)
    }

    fn has_room(&self) -> bool {
        self.bytes.load(Ordering::SeqCst) < self.max_bytes
    }

    /// Records that a stream begins to wait.
    pub(super) fn begin_wait(&self, growing_stream: Option<u64>) -> Turn {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut state = self.state.lock();
        let now_ms = self.now_ms();
        if state.contention.is_over(now_ms) {
            state.contention.since_ms = now_ms;
            state.meters.values().for_each(|meter| meter.mark(now_ms));
        }
        state.contention.last_ms = Some(now_ms);
        growing_stream.map_or_else(|| Turn::Begin(state.take_id()), Turn::Grow)
    }

    /// Stores `waker` for the stream's turn.
    pub(super) fn wait(&self, turn: Turn, waker: &Waker) {
        let mut state = self.state.lock();
        match turn {
            Turn::Begin(id) => drop(state.beginning.insert(id, waker.clone())),
            Turn::Grow(id) => {
                if let Some(meter) = state.meters.get(&id) {
                    meter.begin_wait(self.now_ms());
                }
                if state.growing.insert(id, waker.clone()).is_none() {
                    self.growing.fetch_add(1, Ordering::SeqCst);
                }
            }
        }
    }

    /// Records that a stream stops waiting, and passes on its turn if it had one.
    pub(super) fn end_wait(&self, turn: Turn) {
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        let mut state = self.state.lock();
        state.contention.last_ms = Some(self.now_ms());
        match turn {
            Turn::Begin(id) => drop(state.beginning.remove(&id)),
            Turn::Grow(id) => {
                if let Some(meter) = state.meters.get(&id) {
                    meter.end_wait(self.now_ms());
                }
                if state.growing.remove(&id).is_some() {
                    self.growing.fetch_sub(1, Ordering::SeqCst);
                }
            }
        }
        self.wake(state, Vec::new(), 1);
    }

    /// Drops the connections that block waiting streams. One of the waiting streams performs this check for all of
    /// them.
    pub(super) fn cut_stalled(&self) {
        let now_ms = self.now_ms();
        if !self.claim_check(now_ms) {
            return;
        }
        for meter in self.stalled(now_ms) {
            if meter.client.cut() {
                self.cut.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(
                    peer = &*meter.client.peer,
                    bytes = meter.bytes(),
                    "closed a connection: its client is too slow, and others wait for the bytes in flight to or from it"
                );
            }
        }
    }

    /// Returns whether a check is due. If so, the caller must perform it.
    pub(super) fn claim_check(&self, now_ms: u64) -> bool {
        let is_due = |last: u64| u128::from(now_ms.saturating_sub(last)) >= ROOM_RECHECK.as_millis();
        let look = |last: u64| is_due(last).then_some(now_ms);
        self.checked_ms.fetch_update(Ordering::Relaxed, Ordering::Relaxed, look).is_ok()
    }

    fn stalled(&self, now_ms: u64) -> Vec<Arc<Meter>> {
        let mut state = self.state.lock();
        state.contention.last_ms = Some(now_ms);
        let since_ms = state.contention.since_ms;
        let stalled = state.meters.values().filter(|meter| meter.is_stalled(since_ms, now_ms));
        stalled.cloned().collect()
    }

    /// Returns the beginning of the current contention, or `None` if no stream is waiting for room or was waiting a
    /// short time ago.
    pub(super) fn contended_since_ms(&self) -> Option<u64> {
        let contention = self.state.lock().contention;
        (!contention.is_over(self.now_ms())).then_some(contention.since_ms)
    }

    pub(super) fn log_waiting(&self) {
        let due = self.state.lock().log_throttle.note(Instant::now().into_std());
        if due.is_some() {
            let TrafficStatus { bytes, max_bytes, waiting, .. } = self.status();
            tracing::warn!(
                bytes,
                waiting,
                "streams wait: the limit of {max_bytes} bytes in flight (max_bytes_in_flight) is reached"
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

impl Contention {
    fn is_over(self, now_ms: u64) -> bool {
        let pause = |last: u64| u128::from(now_ms.saturating_sub(last));
        self.last_ms.is_none_or(|last| pause(last) > STALLED_AFTER.as_millis())
    }
}
