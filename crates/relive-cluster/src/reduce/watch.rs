//! Detects, by means of heartbeats that each member sends to member 0, which members of the ring are alive.
//!
//! A member has a connection to member 0, in addition to its connections in the ring. Within the permitted silence,
//! both sides send several messages on it. A message has four fields (see [`message`](super::message)): kind, rank,
//! calls, text.
//!
//! | kind | meaning |
//! |---|---|
//! | 0 | the member with this rank is alive, and has begun this many calls |
//! | 1 | the member has left normally after this many calls |
//! | 2 | the member is lost or has failed; the text is the reason |
//!
//! Member 0 forwards each message to all others.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::greeting::MemberAddress;
use super::late_connections::LateConnections;
use super::limits::{HEARTBEATS_PER_SILENCE, SLICE};
use super::message::{Inbox, Reader, Writer};
use super::{RingError, RingOptions};

const HEARTBEAT: u64 = 0;
const HAS_LEFT: u64 = 1;
const IS_LOST: u64 = 2;

/// The state of a ring's members, which the ring's calls check.
#[derive(Debug)]
pub(super) struct Watch(Arc<WatchState>);

#[derive(Debug)]
struct WatchState {
    rank: u32,
    places: Vec<MemberAddress>,
    silence: Duration,
    state: Mutex<MemberStates>,
    /// Notified when the ring is over.
    changed: Condvar,
    /// The write halves of the connections, by rank.
    peers: Mutex<Vec<(u32, TcpStream)>>,
    is_done: AtomicBool,
}

#[derive(Debug)]
struct MemberStates {
    /// The number of calls that each member has reported.
    calls: Vec<u64>,
    /// The first member that has left, and its number of calls.
    left: Option<(u32, u64)>,
    lost: Option<RingError>,
}

/// The connection to a member, for the listening thread.
struct Peer {
    rank: u32,
    socket: TcpStream,
    inbox: Inbox,
    last_heard: Instant,
    is_open: bool,
}

impl Watch {
    /// Listens to the given members on a separate thread.
    pub(super) fn start(
        rank: u32,
        places: Vec<MemberAddress>,
        peers: Vec<(u32, TcpStream)>,
        options: &RingOptions,
        late_connections: Option<LateConnections>,
    ) -> std::io::Result<Watch> {
        let mut writing = Vec::new();
        for (rank, socket) in &peers {
            socket.set_nodelay(true)?;
            // A peer that no longer reads is also silent, and is reported as silent.
            socket.set_write_timeout(Some(SLICE))?;
            writing.push((*rank, socket.try_clone()?));
        }
        let state = MemberStates { calls: vec![0; places.len()], left: None, lost: None };
        let shared = Arc::new(WatchState {
            rank,
            places,
            silence: options.silence,
            state: Mutex::new(state),
            changed: Condvar::new(),
            peers: Mutex::new(writing),
            is_done: AtomicBool::new(false),
        });
        let now = Instant::now();
        let peer =
            |(rank, socket)| Peer { rank, socket, inbox: Inbox::default(), last_heard: now, is_open: true };
        let (listening, peers) = (Arc::clone(&shared), peers.into_iter().map(peer).collect());
        std::thread::Builder::new()
            .name("relive-ring".to_owned())
            .spawn(move || listening.listen(peers, late_connections))?;
        Ok(Watch(shared))
    }

    /// Records that this member begins a call.
    pub(super) fn begin(&self, call: u64) {
        self.0.state.lock().calls[self.0.rank as usize] = call;
    }

    /// # Errors
    /// The reason why this call will not complete or, without a call, why no call will.
    pub(super) fn check(&self, call: Option<u64>) -> Result<(), RingError> {
        let state = self.0.state.lock();
        state.error_for(call).map_or(Ok(()), Err)
    }

    /// Returns the reason why the connection to a neighbor has broken: the neighbor's message, if one arrives within
    /// the permitted silence, and `reason` otherwise.
    pub(super) fn failure_of(&self, rank: u32, call: u64, reason: &str) -> RingError {
        let until = Instant::now() + self.0.silence;
        let mut state = self.0.state.lock();
        loop {
            if let Some(error) = state.error_for(Some(call)) {
                return error;
            }
            if self.0.changed.wait_until(&mut state, until).timed_out() {
                return self.0.loss(rank, reason);
            }
        }
    }

    /// Returns the members that have begun fewer calls, according to their reports.
    pub(super) fn late(&self, call: u64) -> String {
        let state = self.0.state.lock();
        let late = (0_u32..).zip(&state.calls).filter(|(_, calls)| **calls < call).map(|(rank, _)| rank);
        let names: Vec<String> = late.map(|rank| self.0.named(rank)).collect();
        if names.is_empty() { "members that do not continue".to_owned() } else { names.join(" and ") }
    }

    /// Notifies the other members that this member has finished, or why it has failed.
    pub(super) fn end(&self, calls: u64, failure: Option<&str>) {
        let kind = if failure.is_some() { IS_LOST } else { HAS_LEFT };
        self.0.broadcast(kind, self.0.rank, calls, failure.unwrap_or_default(), None);
        for (_, peer) in &*self.0.peers.lock() {
            // The connection may already be closed.
            let _ = peer.shutdown(std::net::Shutdown::Write);
        }
        self.0.is_done.store(true, Ordering::Relaxed);
    }
}

impl MemberStates {
    /// Returns whether a member has left or is lost. Only the listening thread changes this.
    fn is_over(&self) -> bool {
        self.lost.is_some() || self.left.is_some()
    }

    fn error_for(&self, call: Option<u64>) -> Option<RingError> {
        if let Some(lost) = &self.lost {
            return Some(lost.clone());
        }
        let (rank, calls) = self.left?;
        // The calls in which it took part will complete.
        call.is_none_or(|call| call > calls).then_some(RingError::Left { rank })
    }
}

impl WatchState {
    fn named(&self, rank: u32) -> String {
        format!("member {rank} ({})", self.address(rank))
    }

    fn address(&self, rank: u32) -> String {
        self.places.get(rank as usize).map_or_else(String::new, MemberAddress::to_string)
    }

    fn loss(&self, rank: u32, reason: &str) -> RingError {
        RingError::Lost { rank, address: self.address(rank), reason: reason.to_owned() }
    }

    /// Sends a message to all members except one.
    fn broadcast(&self, kind: u64, rank: u32, calls: u64, text: &str, but: Option<u32>) {
        for (peer, socket) in &mut *self.peers.lock() {
            if Some(*peer) != but {
                // A member that cannot be reached is gone, and the listening thread detects this.
                let _ =
                    Writer::default().number(kind).number(rank.into()).number(calls).text(text).send(socket);
            }
        }
    }

    fn listen(&self, mut peers: Vec<Peer>, mut late_connections: Option<LateConnections>) {
        let beat = self.silence / HEARTBEATS_PER_SILENCE;
        let mut next_beat = Instant::now();
        while peers.iter().any(|peer| peer.is_open) {
            if Instant::now() >= next_beat && !self.is_done.load(Ordering::Relaxed) {
                self.beat();
                next_beat = Instant::now() + beat;
            }
            wait(
                &peers,
                late_connections.as_ref(),
                next_beat.saturating_duration_since(Instant::now()).clamp(Duration::from_millis(1), beat),
            );
            for peer in peers.iter_mut().filter(|peer| peer.is_open) {
                self.receive(peer);
            }
            late_connections.iter_mut().for_each(|late_connections| late_connections.answer(&self.places));
        }
    }

    /// Reports that this member is alive. Member 0 also reports this for all other members.
    fn beat(&self) {
        let calls = self.state.lock().calls.clone();
        for (rank, calls) in (0_u32..).zip(calls) {
            if rank == self.rank || self.rank == 0 {
                self.broadcast(HEARTBEAT, rank, calls, "", None);
            }
        }
    }

    fn receive(&self, peer: &mut Peer) {
        let is_open = read_waiting(peer);
        loop {
            match peer.inbox.next() {
                Ok(Some(message)) => {
                    peer.last_heard = Instant::now();
                    if self.note(peer.rank, message).is_err() {
                        return self.record_loss(peer, "its data is not a message of a ring");
                    }
                }
                Ok(None) => break,
                Err(_) => return self.record_loss(peer, "its data is not a message of a ring"),
            }
        }
        if !is_open {
            return self.record_loss(peer, "its process has ended, or the connection to it is broken");
        }
        if peer.last_heard.elapsed() >= self.silence {
            let seconds = self.silence.as_secs_f64();
            self.record_loss(peer, &format!("it has been silent for {seconds} s: its process is stopped, or its machine is unreachable"));
        }
    }

    fn note(&self, from: u32, mut message: Reader) -> std::io::Result<()> {
        let (kind, rank, calls, text) =
            (message.number()?, message.rank()?, message.number()?, message.text()?);
        let mut state = self.state.lock();
        if let Some(known) = state.calls.get_mut(rank as usize).filter(|_| rank != self.rank) {
            *known = calls;
        }
        if state.is_over() || !matches!(kind, HAS_LEFT | IS_LOST) {
            return Ok(());
        }
        drop(state);
        // Forwarded first: a call that fails because of this message may end this member, and the others must not learn of
        // that end before they learn its cause.
        self.forward(kind, rank, calls, &text, from);
        let mut state = self.state.lock();
        match kind {
            HAS_LEFT => state.left = Some((rank, calls)),
            _ => state.lost = Some(self.loss(rank, &text)),
        }
        self.changed.notify_all();
        Ok(())
    }

    /// Forwards a message; only member 0 is connected to all members.
    fn forward(&self, kind: u64, rank: u32, calls: u64, text: &str, from: u32) {
        if self.rank == 0 {
            self.broadcast(kind, rank, calls, text, Some(from));
        }
    }

    fn record_loss(&self, peer: &mut Peer, reason: &str) {
        peer.is_open = false;
        if self.state.lock().is_over() || self.is_done.load(Ordering::Relaxed) {
            return;
        }
        self.forward(IS_LOST, peer.rank, 0, reason, peer.rank);
        self.state.lock().lost = Some(self.loss(peer.rank, reason));
        self.changed.notify_all();
    }
}

/// Waits until a peer has sent something.
fn wait(peers: &[Peer], late_connections: Option<&LateConnections>, most: Duration) {
    let open = peers.iter().filter(|peer| peer.is_open);
    let mut fds: Vec<_> = open.map(|peer| PollFd::new(&peer.socket, PollFlags::IN)).collect();
    fds.extend(late_connections.into_iter().flat_map(LateConnections::fds));
    // An error does not matter, since all peers are checked afterwards.
    let _ = poll(&mut fds, Timespec::try_from(most).ok().as_ref());
}

/// Reads without blocking. Returns whether the connection is open.
fn read_waiting(peer: &mut Peer) -> bool {
    let mut fds = [PollFd::new(&peer.socket, PollFlags::IN)];
    let has_some = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0);
    !has_some || peer.inbox.fill(&mut peer.socket).unwrap_or(false)
}
