//! What a reader of batches and its connection share, behind one lock.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use relive_connection::{Error, ErrorKind};
use tokio::time::Instant;

use super::asking::{Ask, Asking};
use crate::samples::Sample;
use crate::samples::SampleBatch;

/// What has come of a batch that comes bit by bit is told to the server after as many bytes, not only with the whole
/// batch: it sends no more than the window holds.
const PART_BYTES: u64 = 16 << 20;

/// Batches on their way from a connection to who takes them.
#[derive(Debug)]
pub(super) struct Shared {
    table: Arc<str>,
    /// Batches that are asked for before they are wanted.
    ahead: u64,
    patience: Duration,
    state: Mutex<Arrivals>,
    asking: Asking,
}

#[derive(Debug, Default)]
struct Arrivals {
    ready: VecDeque<Ready>,
    /// The beginning of a batch whose samples come bit by bit, and those of its bytes that the server does not know
    /// to have come.
    part: (Vec<Sample>, u64),
    /// Batches that the connection may ask for.
    credits: u64,
    /// Batches that were asked for and have not come.
    outstanding: u64,
    /// Batches that may still be asked for; none: without end.
    left: Option<u64>,
    taken_bytes: u64,
    caller: Option<Waker>,
    trouble: Option<(Instant, String)>,
    /// Whether samples have ever come.
    has_delivered: bool,
    end: Option<End>,
}

#[derive(Debug)]
pub(super) struct Ready {
    pub(super) batch: SampleBatch,
    pub(super) bytes: u64,
}

/// Why no more batches come.
#[derive(Debug, Clone)]
pub(super) enum End {
    Failed(Error),
    /// The server cannot be reached this way at all.
    NoWay,
}

/// What there is for who asks.
#[derive(Debug)]
pub(super) enum Taken {
    Batch(SampleBatch),
    NoMore,
    /// With the beginning of a batch that has come nevertheless.
    NoWay(Vec<Sample>),
    Error(Error),
    Nothing {
        give_up_at: Option<Instant>,
    },
}

impl Shared {
    pub(super) fn new(table: &str, ahead: u64, max_batches: Option<u64>, patience: Duration) -> Shared {
        let state = Arrivals { left: max_batches, ..Arrivals::default() };
        let shared = Shared {
            table: Arc::from(table),
            ahead,
            patience,
            state: Mutex::new(state),
            asking: Asking::default(),
        };
        shared.state.lock().allow(ahead);
        shared
    }

    /// How long the server may be away.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    pub(super) fn table(&self) -> &Arc<str> {
        &self.table
    }

    /// Batches that have come, and batches that were asked for and have not.
    pub(super) fn counts(&self) -> (usize, usize) {
        let state = self.state.lock();
        let owed = usize::try_from(state.outstanding + state.credits).unwrap_or(usize::MAX);
        (state.ready.len(), owed)
    }

    /// The next batch. Another one may be asked for in its place; if none was asked for, one is.
    pub(super) fn take(&self, waker: &Waker) -> Taken {
        let mut state = self.state.lock();
        if let Some(Ready { batch, bytes }) = state.ready.pop_front() {
            state.taken_bytes += bytes;
            state.allow(self.ahead.min(1));
            drop(state);
            self.asking.now(|| self.ask());
            return Taken::Batch(batch);
        }
        match &state.end {
            Some(End::Failed(error)) => return Taken::Error(error.clone()),
            Some(End::NoWay) => return Taken::NoWay(std::mem::take(&mut state.part).0),
            None if state.is_over() => return Taken::NoMore,
            None => {}
        }
        state.caller = Some(waker.clone());
        let is_first = state.credits + state.outstanding == 0;
        if is_first {
            state.allow(1);
        }
        let give_up_at = state.trouble.as_ref().and_then(|(since, _)| since.checked_add(self.patience));
        drop(state);
        if is_first {
            self.asking.now(|| self.ask());
        }
        Taken::Nothing { give_up_at }
    }

    /// The error for a server that stays away.
    pub(super) fn unavailable(&self) -> Error {
        let mut state = self.state.lock();
        let text = state.trouble.as_ref().map_or_else(String::new, |(_, text)| text.clone());
        // The next one has as long.
        state.trouble = None;
        let text = format!("sample: no server for table {:?} since {:?}: {text}", self.table, self.patience);
        Error::new(ErrorKind::Unavailable, text)
    }

    // For the connection.

    /// Who asks.
    pub(super) fn asking(&self) -> &Asking {
        &self.asking
    }

    /// What is to be asked for now, if something is: whoever gets it has to ask.
    pub(super) fn ask(&self) -> Option<Ask> {
        let mut state = self.state.lock();
        // What was taken is told also when nothing is asked for: the server may wait for it to send the rest.
        if state.credits == 0 && (state.taken_bytes == 0 || state.outstanding == 0) {
            return None;
        }
        let batches = std::mem::take(&mut state.credits);
        state.outstanding += batches;
        Some(Ask { batches, taken_bytes: std::mem::take(&mut state.taken_bytes) })
    }

    /// Hands a batch over; false if nobody asked for it.
    pub(super) fn deliver(&self, ready: Ready) -> bool {
        let mut state = self.state.lock();
        let Some(outstanding) = state.outstanding.checked_sub(1) else { return false };
        state.outstanding = outstanding;
        (state.trouble, state.has_delivered) = (None, true);
        state.ready.push_back(ready);
        wake(state);
        true
    }

    /// Samples of a batch that is not whole.
    pub(super) fn samples_at_hand(&self) -> usize {
        self.state.lock().part.0.len()
    }

    /// Adds samples to the batch that is coming bit by bit; false if nobody asked for as many.
    pub(super) fn deliver_part(
        &self,
        samples: impl Iterator<Item = Sample>,
        bytes: u64,
        batch_size: usize,
    ) -> bool {
        let batch = {
            let mut state = self.state.lock();
            state.trouble = None;
            let (part, part_bytes) = &mut state.part;
            part.extend(samples);
            *part_bytes += bytes;
            if part.len() < batch_size {
                if *part_bytes >= PART_BYTES {
                    state.taken_bytes += std::mem::take(&mut state.part.1);
                    drop(state);
                    self.asking.soon();
                }
                return true;
            }
            std::mem::take(&mut state.part)
        };
        let (samples, bytes) = batch;
        samples.len() == batch_size && self.deliver(Ready { batch: SampleBatch::new(samples), bytes })
    }

    /// Inserts that the table has had at least, as the samples say that came since this was asked last.
    pub(super) fn take_known_inserts(&self) -> Option<(Arc<str>, u64)> {
        std::mem::take(&mut self.state.lock().has_delivered).then(|| (Arc::clone(&self.table), 1))
    }

    /// Takes note of a connection that broke: what it owed is asked for again.
    pub(super) fn broke(&self, text: String) {
        let mut state = self.state.lock();
        state.credits += std::mem::take(&mut state.outstanding);
        (state.taken_bytes, state.part.1) = (0, 0);
        let since = state.trouble.take().map_or_else(Instant::now, |(since, _)| since);
        state.trouble = Some((since, text));
        wake(state);
    }

    /// Whether all that may be asked for has come.
    pub(super) fn is_done(&self) -> bool {
        let state = self.state.lock();
        state.left == Some(0) && state.credits == 0 && state.outstanding == 0
    }

    pub(super) fn end(&self, end: End) {
        let mut state = self.state.lock();
        state.end = Some(end);
        wake(state);
    }
}

impl Arrivals {
    fn allow(&mut self, batches: u64) {
        let batches = batches.min(self.left.unwrap_or(u64::MAX));
        self.credits += batches;
        if let Some(left) = &mut self.left {
            *left -= batches;
        }
    }

    fn is_over(&self) -> bool {
        self.left == Some(0) && self.credits == 0 && self.outstanding == 0
    }
}

/// Ends the lock, and wakes who asks for batches then.
fn wake(mut state: MutexGuard<'_, Arrivals>) {
    let caller = state.caller.take();
    drop(state);
    if let Some(caller) = caller {
        caller.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_is_told_when_there_is_nothing_left_to_ask_for() {
        let shared = Shared::new("t", 3, Some(2), Duration::ZERO);
        assert_eq!(shared.ask(), Some(Ask { batches: 2, taken_bytes: 0 }));
        assert_eq!(shared.ask(), None);
        for taken in [Some(Ask { batches: 0, taken_bytes: 7 }), None] {
            assert!(shared.deliver(Ready { batch: SampleBatch::new(Vec::new()), bytes: 7 }));
            assert!(matches!(shared.take(Waker::noop()), Taken::Batch(_)));
            assert_eq!(shared.ask(), taken, "after the last one nobody waits");
        }
        assert!(!shared.deliver(Ready { batch: SampleBatch::new(Vec::new()), bytes: 7 }), "not asked for");
        assert!(matches!(shared.take(Waker::noop()), Taken::NoMore));
    }

    #[test]
    fn the_bytes_of_a_batch_that_comes_bit_by_bit_are_told_before_it_is_whole() {
        let shared = Shared::new("t", 1, None, Duration::ZERO);
        assert_eq!(shared.ask(), Some(Ask { batches: 1, taken_bytes: 0 }));
        for told in [None, Some(Ask { batches: 0, taken_bytes: 2 * PART_BYTES - 2 }), None] {
            assert!(shared.deliver_part(std::iter::empty(), PART_BYTES - 1, 1));
            assert_eq!(shared.ask(), told);
        }
        shared.broke("it is gone".to_owned());
        let again = Some(Ask { batches: 1, taken_bytes: 0 });
        assert_eq!(shared.ask(), again, "another connection has sent nothing yet");
        assert!(shared.deliver_part(std::iter::empty(), 1, 1));
        assert_eq!(shared.ask(), None);
    }
}
