//! The ring, as seen by one of its members.

use std::fmt;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::limits::{QUIET, SLICE};
use super::schedule::{Reduction, Schedule};
use super::transfer::{FailedLink, Head, Links, Transfer};
use super::watch::Watch;
use super::{RingError, RingOptions};

/// A ring, as seen by one of its members. All members make the same calls in the same order, and each call waits for
/// the other members.
///
/// Dropping a ring without [`leave`](Self::leave) also makes it fail for the other members.
#[derive(Debug)]
pub struct Ring {
    rank: u32,
    ranks: u32,
    timeout: Duration,
    check: Option<Check>,
    /// `None` for a single member.
    connected: Option<Connected>,
}

/// A function that is called while a call on the ring is waiting.
struct Check(Box<dyn Fn() -> Result<(), String> + Send + Sync>);

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Check")
    }
}

#[derive(Debug)]
struct Connected {
    watch: Watch,
    state: Mutex<Calls>,
}

#[derive(Debug)]
struct Calls {
    links: Links,
    /// The number of calls so far.
    begun: u64,
    has_ended: bool,
}

impl Ring {
    /// Creates a ring with a single member.
    #[must_use]
    pub fn alone() -> Ring {
        Ring { rank: 0, ranks: 1, timeout: Duration::MAX, check: None, connected: None }
    }

    pub(super) fn linked(rank: u32, options: &RingOptions, links: Links, watch: Watch) -> Ring {
        let state = Mutex::new(Calls { links, begun: 0, has_ended: false });
        Ring {
            rank,
            ranks: options.ranks,
            timeout: options.timeout,
            check: None,
            connected: Some(Connected { watch, state }),
        }
    }

    /// Calls `check` about twenty times a second while a call is waiting. Its error, such as an interrupt by the user,
    /// cancels the call.
    #[must_use]
    pub fn checked_by(mut self, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Ring {
        self.check = Some(Check(Box::new(check)));
        self
    }

    /// Returns the rank of this member, counted from 0.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Returns the number of members.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Replaces the array of each member with the sum or the mean over all members. All members get the same bits.
    ///
    /// # Errors
    /// [`Mismatch`](RingError::Mismatch) if another member makes a different call, or passes a different length.
    /// [`Lost`](RingError::Lost), [`Left`](RingError::Left) or [`Late`](RingError::Late) if a member is lost, has left,
    /// or does not join the call in time. After an error, the numbers are undefined, and the ring is unusable.
    pub fn all_reduce(&self, numbers: &mut [f32], reduction: Reduction) -> Result<(), RingError> {
        let kind = match reduction {
            Reduction::Sum => Call::Sum,
            Reduction::Mean => Call::Mean,
        };
        let schedule = |len| Schedule::all_reduce(self.rank, self.ranks, len / 4, reduction);
        self.call(kind, bytemuck::cast_slice_mut(numbers), schedule)
    }

    /// Returns the numbers of all members, by rank. All members must pass the same number of them.
    ///
    /// # Errors
    /// Same as [`all_reduce`](Self::all_reduce).
    pub fn gather(&self, numbers: &[f64]) -> Result<Vec<Vec<f64>>, RingError> {
        let (own, count) = (self.rank as usize, numbers.len());
        let mut all = vec![0.0; count * self.ranks as usize];
        all[own * count..(own + 1) * count].copy_from_slice(numbers);
        let schedule = |_| Schedule::gather(self.rank, self.ranks, count * size_of::<f64>());
        self.call(Call::Gather, bytemuck::cast_slice_mut(&mut all), schedule)?;
        Ok((0..self.ranks as usize).map(|rank| all[rank * count..(rank + 1) * count].to_vec()).collect())
    }

    /// Replaces the bytes of all members with the bytes of member 0. The lengths may differ.
    ///
    /// # Errors
    /// The errors of [`all_reduce`](Self::all_reduce), except those due to different lengths.
    pub fn broadcast(&self, bytes: &mut Vec<u8>) -> Result<(), RingError> {
        let mut length = (bytes.len() as u64).to_le_bytes();
        let schedule = |len| Schedule::broadcast(self.rank, self.ranks, len);
        self.call(Call::Broadcast, &mut length, schedule)?;
        // A length beyond the address space cannot be genuine.
        bytes.resize(usize::try_from(u64::from_le_bytes(length)).unwrap_or(usize::MAX), 0);
        self.call(Call::Broadcast, bytes, schedule)
    }

    /// Checks, without waiting, that all members are alive.
    ///
    /// # Errors
    /// A member is lost. The error contains its rank and the reason.
    pub fn check(&self) -> Result<(), RingError> {
        self.connected.as_ref().map_or(Ok(()), |connected| connected.watch.check(None))
    }

    /// Leaves the ring normally. The other members complete the calls in which this member took part; their later calls
    /// return [`Left`](RingError::Left).
    pub fn leave(&self) {
        self.end(None);
    }

    /// Leaves the ring because this member has failed. The other members receive the reason.
    pub fn fail(&self, reason: &str) {
        self.end(Some(reason));
    }

    fn end(&self, failure: Option<&str>) {
        let Some(Connected { watch, state }) = &self.connected else { return };
        let mut calls = state.lock();
        if !std::mem::replace(&mut calls.has_ended, true) {
            watch.end(calls.begun, failure);
        }
    }

    /// Makes a call. If this member stops during the call, it notifies the other members immediately.
    fn call(
        &self,
        call: Call,
        buffer: &mut [u8],
        schedule: impl FnOnce(usize) -> Schedule,
    ) -> Result<(), RingError> {
        let Some(Connected { watch, state }) = &self.connected else { return Ok(()) };
        let calls = &mut *state.lock();
        if calls.has_ended {
            return Err(RingError::Left { rank: self.rank });
        }
        calls.begun += 1;
        watch.begin(calls.begun);
        let schedule = schedule(buffer.len());
        let called = self.run_call(call, (buffer, schedule), (watch, calls));
        if let Err(error) = &called
            && !matches!(error, RingError::Lost { .. } | RingError::Left { .. })
        {
            calls.has_ended = true;
            watch.end(calls.begun, Some(&error.to_string()));
        }
        called
    }

    fn run_call(
        &self,
        call: Call,
        (buffer, schedule): (&mut [u8], Schedule),
        (watch, calls): (&Watch, &mut Calls),
    ) -> Result<(), RingError> {
        let head = call.head(buffer.len(), calls.begun);
        let before = (self.rank + self.ranks - 1) % self.ranks;
        let next = (self.rank + 1) % self.ranks;
        let mut transfer = Transfer::new(head, schedule, buffer);
        // Waits count from the last progress, so that a large transfer over a slow network has the time that it needs.
        let (mut since, mut quiet) = (Instant::now(), QUIET);
        while !transfer.is_done() {
            let number = calls.begun;
            let moved = transfer.advance(&mut calls.links).map_err(|broken| match broken {
                FailedLink::Next(error) => watch.failure_of(next, number, &error.to_string()),
                FailedLink::Before(error) => watch.failure_of(before, number, &error.to_string()),
            })?;
            if let Some(theirs) = transfer.their_head().filter(|theirs| **theirs != head) {
                let (theirs, own) = (describe(theirs), describe(&head));
                return Err(RingError::Mismatch { rank: before, theirs, own });
            }
            if moved {
                (since, quiet) = (Instant::now(), QUIET);
                continue;
            }
            watch.check(Some(number))?;
            if let Some(Check(check)) = &self.check {
                check().map_err(|reason| RingError::Interrupted { reason })?;
            }
            let waited = since.elapsed();
            if waited >= self.timeout {
                let who = watch.late(number);
                return Err(RingError::Late { call: number, seconds: waited.as_secs(), who });
            }
            if waited >= quiet {
                quiet += QUIET;
                tracing::info!(
                    "call {number} of the ring has waited {} s for {}",
                    waited.as_secs(),
                    watch.late(number)
                );
            }
            let wait = transfer.wait(&calls.links, SLICE.min(self.timeout - waited));
            wait.map_err(|error| watch.failure_of(before, number, &error.to_string()))?;
        }
        Ok(())
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.end(Some("it ended before the others"));
    }
}

/// The kind of a call.
#[derive(Debug, Clone, Copy)]
enum Call {
    Sum,
    Mean,
    Gather,
    Broadcast,
}

const CALLS: [(Call, &str); 4] = [
    (Call::Sum, "all_reduce (sum)"),
    (Call::Mean, "all_reduce (mean)"),
    (Call::Gather, "gather"),
    (Call::Broadcast, "broadcast"),
];

impl Call {
    fn head(self, len: usize, number: u64) -> Head {
        let mut head = [0; 24];
        for (to, number) in head.chunks_exact_mut(8).zip([self as u64, len as u64, number]) {
            to.copy_from_slice(&number.to_le_bytes());
        }
        head
    }
}

/// Describes a call's head, for error messages.
fn describe(head: &Head) -> String {
    let mut numbers = head.chunks_exact(8).map(|bytes| {
        let mut number = [0; 8];
        number.copy_from_slice(bytes);
        u64::from_le_bytes(number)
    });
    let mut next = || numbers.next().unwrap_or(0);
    let (kind, len, number) = (next(), next(), next());
    let name =
        CALLS.iter().find(|(call, _)| *call as u64 == kind).map_or("an unknown operation", |(_, name)| name);
    format!("{name} of {len} bytes as call {number}")
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::reduce::greeting::MemberAddress;

    const TIMEOUT: Duration = Duration::from_millis(500);

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (one, listener.accept().unwrap().0)
    }

    /// Returns member 0 of two, and the other ends of its connections.
    fn member() -> (Ring, [TcpStream; 2]) {
        let ((next, after), (before, from)) = (pair(), pair());
        [&next, &before].into_iter().for_each(|socket| socket.set_nonblocking(true).unwrap());
        let options = RingOptions { ranks: 2, timeout: TIMEOUT, ..RingOptions::default() };
        let places = ["0", "1"].map(|address| MemberAddress { address: address.to_owned(), process: 1 });
        let watch = Watch::start(0, places.to_vec(), Vec::new(), &options, None).unwrap();
        (Ring::linked(0, &options, Links::new(next, before), watch), [after, from])
    }

    /// The other member sends one number after each slice in which nothing has arrived.
    #[test]
    fn the_timeout_counts_from_the_last_progress() {
        const COUNT: usize = 14;
        let (ring, [_after, from]) = member();
        let mut waiting: Vec<u8> = Call::Gather.head(2 * COUNT * 8, 1).into();
        waiting.extend([1.0_f64; COUNT].iter().flat_map(|number| number.to_le_bytes()));
        let (waiting, is_second) = (Mutex::new(waiting), Mutex::new(false));
        let ring = ring.checked_by(move || {
            let mut is_second = is_second.lock();
            *is_second = !*is_second;
            if !*is_second {
                let mut waiting = waiting.lock();
                let piece: Vec<u8> = waiting.drain(..8).collect();
                (&from).write_all(&piece).map_err(|error| error.to_string())?;
            }
            Ok(())
        });
        let begun = Instant::now();
        let gathered = ring.gather(&[0.0; COUNT]).unwrap();
        assert_eq!(gathered[1], [1.0; COUNT]);
        assert!(begun.elapsed() > TIMEOUT, "the transfer must take longer than the timeout");
    }

    #[test]
    fn a_call_without_progress_times_out() {
        let (ring, _others) = member();
        let error = ring.gather(&[0.0]).unwrap_err();
        assert!(matches!(&error, RingError::Late { call: 1, .. }), "{error}");
    }
}
