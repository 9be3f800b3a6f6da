//! A member's end of the ring.

use std::fmt;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::limits::{QUIET, SLICE};
use super::schedule::{Reduction, Schedule};
use super::transfer::{Broken, Head, Links, Transfer};
use super::watch::Watch;
use super::{RingError, RingOptions};

/// A member's end of a ring. All members make the same calls in the same order; each of them waits for the others.
///
/// A ring that is dropped without [`leave`](Self::leave) fails for the others, too.
#[derive(Debug)]
pub struct Ring {
    rank: u32,
    ranks: u32,
    timeout: Duration,
    check: Option<Check>,
    /// None if there is one member.
    joint: Option<Joint>,
}

/// Is asked while a call waits.
struct Check(Box<dyn Fn() -> Result<(), String> + Send + Sync>);

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Check")
    }
}

#[derive(Debug)]
struct Joint {
    watch: Watch,
    state: Mutex<Calls>,
}

#[derive(Debug)]
struct Calls {
    links: Links,
    /// Calls that have begun.
    begun: u64,
    has_ended: bool,
}

impl Ring {
    /// A ring of one member, which has all there is.
    #[must_use]
    pub fn alone() -> Ring {
        Ring { rank: 0, ranks: 1, timeout: Duration::MAX, check: None, joint: None }
    }

    pub(super) fn linked(rank: u32, options: &RingOptions, links: Links, watch: Watch) -> Ring {
        let state = Mutex::new(Calls { links, begun: 0, has_ended: false });
        Ring {
            rank,
            ranks: options.ranks,
            timeout: options.timeout,
            check: None,
            joint: Some(Joint { watch, state }),
        }
    }

    /// Calls `check` some twenty times a second while a call waits, which ends by the reason that it gives, such as
    /// that a user wants it to.
    #[must_use]
    pub fn checked_by(mut self, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Ring {
        self.check = Some(Check(Box::new(check)));
        self
    }

    /// The number of this member, from 0 on.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// How many members there are.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Puts the sum or the mean of all members' arrays in the place of each. All get the same bits.
    ///
    /// # Errors
    /// [`Mismatch`](RingError::Mismatch): another member calls something else, or with another length;
    /// [`Lost`](RingError::Lost), [`Left`](RingError::Left), [`Late`](RingError::Late). The numbers are undefined
    /// then, and the ring is of no more use.
    pub fn all_reduce(&self, numbers: &mut [f32], reduction: Reduction) -> Result<(), RingError> {
        let kind = match reduction {
            Reduction::Sum => Call::Sum,
            Reduction::Mean => Call::Mean,
        };
        let schedule = |len| Schedule::all_reduce(self.rank, self.ranks, len / 4, reduction);
        self.call(kind, bytemuck::cast_slice_mut(numbers), schedule)
    }

    /// The numbers of all members, rank by rank. All give equally many.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    pub fn gather(&self, numbers: &[f64]) -> Result<Vec<Vec<f64>>, RingError> {
        let (own, count) = (self.rank as usize, numbers.len());
        let mut all = vec![0.0; count * self.ranks as usize];
        all[own * count..(own + 1) * count].copy_from_slice(numbers);
        let schedule = |_| Schedule::gather(self.rank, self.ranks, count * size_of::<f64>());
        self.call(Call::Gather, bytemuck::cast_slice_mut(&mut all), schedule)?;
        Ok((0..self.ranks as usize).map(|rank| all[rank * count..(rank + 1) * count].to_vec()).collect())
    }

    /// Puts the bytes of member 0 in the place of those of all others, which may have another length.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce), but for lengths.
    pub fn broadcast(&self, bytes: &mut Vec<u8>) -> Result<(), RingError> {
        let mut length = (bytes.len() as u64).to_le_bytes();
        let schedule = |len| Schedule::broadcast(self.rank, self.ranks, len);
        self.call(Call::Broadcast, &mut length, schedule)?;
        // More than there is memory for cannot have been sent.
        bytes.resize(usize::try_from(u64::from_le_bytes(length)).unwrap_or(usize::MAX), 0);
        self.call(Call::Broadcast, bytes, schedule)
    }

    /// Whether all members are still there. It does not wait.
    ///
    /// # Errors
    /// A member is lost: the error names it, and the reason.
    pub fn check(&self) -> Result<(), RingError> {
        self.joint.as_ref().map_or(Ok(()), |joint| joint.watch.check(None))
    }

    /// Leaves in order: this member has nothing more to add. The others complete the calls that it took part in; what
    /// they call after those gives [`Left`](RingError::Left).
    pub fn leave(&self) {
        self.end(None);
    }

    /// Leaves because this member has failed. The others receive the reason.
    pub fn fail(&self, reason: &str) {
        self.end(Some(reason));
    }

    fn end(&self, failure: Option<&str>) {
        let Some(Joint { watch, state }) = &self.joint else { return };
        let mut calls = state.lock();
        if !std::mem::replace(&mut calls.has_ended, true) {
            watch.end(calls.begun, failure);
        }
    }

    /// Makes a call. If this member gives up, it tells the others at once.
    fn call(
        &self,
        call: Call,
        buffer: &mut [u8],
        schedule: impl FnOnce(usize) -> Schedule,
    ) -> Result<(), RingError> {
        let Some(Joint { watch, state }) = &self.joint else { return Ok(()) };
        let calls = &mut *state.lock();
        if calls.has_ended {
            return Err(RingError::Left { rank: self.rank });
        }
        calls.begun += 1;
        watch.begin(calls.begun);
        let schedule = schedule(buffer.len());
        let called = self.made(call, (buffer, schedule), (watch, calls));
        if let Err(error) = &called
            && !matches!(error, RingError::Lost { .. } | RingError::Left { .. })
        {
            calls.has_ended = true;
            watch.end(calls.begun, Some(&error.to_string()));
        }
        called
    }

    fn made(
        &self,
        call: Call,
        (buffer, schedule): (&mut [u8], Schedule),
        (watch, calls): (&Watch, &mut Calls),
    ) -> Result<(), RingError> {
        let head = call.head(buffer.len(), calls.begun);
        let before = (self.rank + self.ranks - 1) % self.ranks;
        let next = (self.rank + 1) % self.ranks;
        let mut transfer = Transfer::new(head, schedule, buffer);
        let (since, mut quiet) = (Instant::now(), QUIET);
        while !transfer.is_done() {
            let number = calls.begun;
            let moved = transfer.advance(&mut calls.links).map_err(|broken| match broken {
                Broken::Next(error) => watch.why_broken(next, number, &error.to_string()),
                Broken::Before(error) => watch.why_broken(before, number, &error.to_string()),
            })?;
            if let Some(theirs) = transfer.their_head().filter(|theirs| **theirs != head) {
                let (theirs, own) = (told(theirs), told(&head));
                return Err(RingError::Mismatch { rank: before, theirs, own });
            }
            if moved {
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
            wait.map_err(|error| watch.why_broken(before, number, &error.to_string()))?;
        }
        Ok(())
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.end(Some("it has ended before the others"));
    }
}

/// What is called.
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

/// A head, for people.
fn told(head: &Head) -> String {
    let mut numbers = head.chunks_exact(8).map(|bytes| {
        let mut number = [0; 8];
        number.copy_from_slice(bytes);
        u64::from_le_bytes(number)
    });
    let mut next = || numbers.next().unwrap_or(0);
    let (kind, len, number) = (next(), next(), next());
    let name =
        CALLS.iter().find(|(call, _)| *call as u64 == kind).map_or("something unknown", |(_, name)| name);
    format!("{name} of {len} bytes as call {number}")
}
