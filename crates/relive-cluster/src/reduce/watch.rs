//! Which members of the ring live: each sends signs of life to the first member.
//!
//! A member has a connection to the first, besides those of the ring. Both send messages on it several times within
//! the silence that the options allow. A message has four fields (see [`message`](super::message)): kind, rank,
//! calls, text.
//!
//! | kind | meaning |
//! |---|---|
//! | 0 | the member of this rank lives and has begun so many calls |
//! | 1 | it has left in order after so many calls |
//! | 2 | it is lost, or has failed; the text says why |
//!
//! The first member passes each message on to all others.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::greeting::MemberAddress;
use super::latecomers::Latecomers;
use super::limits::{BEATS_IN_SILENCE, SLICE};
use super::message::{Inbox, Reader, Writer};
use super::{RingError, RingOptions};

const LIVES: u64 = 0;
const HAS_LEFT: u64 = 1;
const IS_LOST: u64 = 2;

/// What is known of the members, as the calls of a ring see it.
#[derive(Debug)]
pub(super) struct Watch(Arc<Watched>);

#[derive(Debug)]
struct Watched {
    rank: u32,
    places: Vec<MemberAddress>,
    silence: Duration,
    state: Mutex<MemberStates>,
    /// Is told when it is over.
    changed: Condvar,
    /// The writing halves of the connections, by rank.
    peers: Mutex<Vec<(u32, TcpStream)>>,
    is_done: AtomicBool,
}

#[derive(Debug)]
struct MemberStates {
    /// Calls that each has begun, as far as it has told.
    calls: Vec<u64>,
    /// The first member that has left, and after how many calls.
    left: Option<(u32, u64)>,
    lost: Option<RingError>,
}

/// The connection to a member, as the thread that listens has it.
struct Peer {
    rank: u32,
    socket: TcpStream,
    inbox: Inbox,
    heard: Instant,
    is_open: bool,
}

impl Watch {
    /// Listens to these members, on a thread of its own.
    pub(super) fn start(
        rank: u32,
        places: Vec<MemberAddress>,
        peers: Vec<(u32, TcpStream)>,
        options: &RingOptions,
        latecomers: Option<Latecomers>,
    ) -> std::io::Result<Watch> {
        let mut writing = Vec::new();
        for (rank, socket) in &peers {
            socket.set_nodelay(true)?;
            // A peer that takes nothing more is silent as well, and named for that.
            socket.set_write_timeout(Some(SLICE))?;
            writing.push((*rank, socket.try_clone()?));
        }
        let state = MemberStates { calls: vec![0; places.len()], left: None, lost: None };
        let shared = Arc::new(Watched {
            rank,
            places,
            silence: options.silence,
            state: Mutex::new(state),
            changed: Condvar::new(),
            peers: Mutex::new(writing),
            is_done: AtomicBool::new(false),
        });
        let now = Instant::now();
        let peer = |(rank, socket)| Peer { rank, socket, inbox: Inbox::default(), heard: now, is_open: true };
        let (listening, peers) = (Arc::clone(&shared), peers.into_iter().map(peer).collect());
        std::thread::Builder::new()
            .name("relive-ring".to_owned())
            .spawn(move || listening.listen(peers, latecomers))?;
        Ok(Watch(shared))
    }

    /// This member begins a call.
    pub(super) fn begin(&self, call: u64) {
        self.0.state.lock().calls[self.0.rank as usize] = call;
    }

    /// # Errors
    /// Why this call, or any if there is none, will not be completed.
    pub(super) fn check(&self, call: Option<u64>) -> Result<(), RingError> {
        let state = self.0.state.lock();
        state.verdict(call).map_or(Ok(()), Err)
    }

    /// Why the connection to a neighbour has broken: the message about it, if one comes within the silence, otherwise
    /// `reason`.
    pub(super) fn why_broken(&self, rank: u32, call: u64, reason: &str) -> RingError {
        let until = Instant::now() + self.0.silence;
        let mut state = self.0.state.lock();
        loop {
            if let Some(error) = state.verdict(Some(call)) {
                return error;
            }
            if self.0.changed.wait_until(&mut state, until).timed_out() {
                return self.0.loss(rank, reason);
            }
        }
    }

    /// Who has begun fewer calls, as far as they have told.
    pub(super) fn late(&self, call: u64) -> String {
        let state = self.0.state.lock();
        let late = (0_u32..).zip(&state.calls).filter(|(_, calls)| **calls < call).map(|(rank, _)| rank);
        let told: Vec<String> = late.map(|rank| self.0.named(rank)).collect();
        if told.is_empty() { "members that do not go on".to_owned() } else { told.join(" and ") }
    }

    /// Tells the others that this member has nothing more to add, or why it cannot go on.
    pub(super) fn end(&self, calls: u64, failure: Option<&str>) {
        let kind = if failure.is_some() { IS_LOST } else { HAS_LEFT };
        self.0.tell(kind, self.0.rank, calls, failure.unwrap_or_default(), None);
        for (_, peer) in &*self.0.peers.lock() {
            // It may be gone already.
            let _ = peer.shutdown(std::net::Shutdown::Write);
        }
        self.0.is_done.store(true, Ordering::Relaxed);
    }
}

impl MemberStates {
    fn verdict(&self, call: Option<u64>) -> Option<RingError> {
        if let Some(lost) = &self.lost {
            return Some(lost.clone());
        }
        let (rank, calls) = self.left?;
        // What it took part in will be completed.
        call.is_none_or(|call| call > calls).then_some(RingError::Left { rank })
    }
}

impl Watched {
    fn named(&self, rank: u32) -> String {
        format!("member {rank} ({})", self.address(rank))
    }

    fn address(&self, rank: u32) -> String {
        self.places.get(rank as usize).map_or_else(String::new, MemberAddress::to_string)
    }

    fn loss(&self, rank: u32, reason: &str) -> RingError {
        RingError::Lost { rank, address: self.address(rank), reason: reason.to_owned() }
    }

    /// Sends a message to all, but for one.
    fn tell(&self, kind: u64, rank: u32, calls: u64, text: &str, but: Option<u32>) {
        for (peer, socket) in &mut *self.peers.lock() {
            if Some(*peer) != but {
                // Whoever cannot be told is gone, which the thread that listens notices.
                let _ =
                    Writer::default().number(kind).number(rank.into()).number(calls).text(text).send(socket);
            }
        }
    }

    fn listen(&self, mut peers: Vec<Peer>, mut latecomers: Option<Latecomers>) {
        let beat = self.silence / BEATS_IN_SILENCE;
        let mut next_beat = Instant::now();
        while peers.iter().any(|peer| peer.is_open) {
            if Instant::now() >= next_beat && !self.is_done.load(Ordering::Relaxed) {
                self.beat();
                next_beat = Instant::now() + beat;
            }
            wait(
                &peers,
                latecomers.as_ref(),
                next_beat.saturating_duration_since(Instant::now()).clamp(Duration::from_millis(1), beat),
            );
            for peer in peers.iter_mut().filter(|peer| peer.is_open) {
                self.hear(peer);
            }
            latecomers.iter_mut().for_each(|latecomers| latecomers.answer(&self.places));
        }
    }

    /// Tells that this member lives; the first one tells it of all.
    fn beat(&self) {
        let calls = self.state.lock().calls.clone();
        for (rank, calls) in (0_u32..).zip(calls) {
            if rank == self.rank || self.rank == 0 {
                self.tell(LIVES, rank, calls, "", None);
            }
        }
    }

    fn hear(&self, peer: &mut Peer) {
        let is_open = read_waiting(peer);
        loop {
            match peer.inbox.next() {
                Ok(Some(message)) => {
                    peer.heard = Instant::now();
                    if self.note(peer.rank, message).is_err() {
                        return self.lose(peer, "what it sends is no message of a ring");
                    }
                }
                Ok(None) => break,
                Err(_) => return self.lose(peer, "what it sends is no message of a ring"),
            }
        }
        if !is_open {
            return self.lose(peer, "its process has ended, or the connection to it is cut");
        }
        if peer.heard.elapsed() >= self.silence {
            let seconds = self.silence.as_secs_f64();
            self.lose(peer, &format!("nothing was heard of it for {seconds} s: its process is stopped, or its machine is not reached"));
        }
    }

    fn note(&self, from: u32, mut message: Reader) -> std::io::Result<()> {
        let (kind, rank, calls, text) =
            (message.number()?, message.rank()?, message.number()?, message.text()?);
        let mut state = self.state.lock();
        if let Some(known) = state.calls.get_mut(rank as usize).filter(|_| rank != self.rank) {
            *known = calls;
        }
        let is_news = state.lost.is_none() && state.left.is_none();
        match kind {
            HAS_LEFT if is_news => state.left = Some((rank, calls)),
            IS_LOST if is_news => state.lost = Some(self.loss(rank, &text)),
            _ => return Ok(()),
        }
        drop(state);
        self.changed.notify_all();
        self.pass_on(kind, rank, calls, &text, from);
        Ok(())
    }

    /// The first member is the one that all are connected with.
    fn pass_on(&self, kind: u64, rank: u32, calls: u64, text: &str, from: u32) {
        if self.rank == 0 {
            self.tell(kind, rank, calls, text, Some(from));
        }
    }

    fn lose(&self, peer: &mut Peer, reason: &str) {
        peer.is_open = false;
        let mut state = self.state.lock();
        if state.lost.is_some() || state.left.is_some() || self.is_done.load(Ordering::Relaxed) {
            return;
        }
        state.lost = Some(self.loss(peer.rank, reason));
        drop(state);
        self.changed.notify_all();
        self.pass_on(IS_LOST, peer.rank, 0, reason, peer.rank);
    }
}

/// Waits until one of them has sent something.
fn wait(peers: &[Peer], latecomers: Option<&Latecomers>, most: Duration) {
    let open = peers.iter().filter(|peer| peer.is_open);
    let mut fds: Vec<_> = open.map(|peer| PollFd::new(&peer.socket, PollFlags::IN)).collect();
    fds.extend(latecomers.into_iter().flat_map(Latecomers::fds));
    // It is looked in any case what there is.
    let _ = poll(&mut fds, Timespec::try_from(most).ok().as_ref());
}

/// Reads what has come, without waiting; whether the connection is open.
fn read_waiting(peer: &mut Peer) -> bool {
    let mut fds = [PollFd::new(&peer.socket, PollFlags::IN)];
    let has_some = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0);
    !has_some || peer.inbox.fill(&mut peer.socket).unwrap_or(false)
}
