//! Where the stores of an index space are: in this machine's memory, or behind a connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::options::Trajectory;
use super::shard::Shard;
use crate::bytes::narrow;
use crate::error::{Error, Result};
use crate::memory::claims::NOBODY;
use crate::memory::futex;
use crate::memory::segment::Segment;
use crate::metrics::Metrics;
use crate::peers::Peer;
use relive_gpu_protocol::pin::{self, Pin};

/// The number of rows whose pins are announced together.
const ROWS_AT_ONCE: usize = 64;

/// The maximum number of times that a pin is retried while the controller is deciding whether to evict the row, which
/// takes less than a microsecond.
const LOOKS: usize = 10_000;

/// Where one of the joined stores is.
#[derive(Clone, Debug)]
pub(crate) enum StorePlace {
    /// In this machine's memory.
    Local(Arc<Shared>),
    /// In another machine's memory.
    Remote(Peer),
}

/// This process's part of a store in this machine's memory.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) segment: Arc<Segment>,
    pub(super) slot: usize,
    pub(crate) shard: Shard,
    pub(super) metrics: Arc<Metrics>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Every pin holds a reference to this, so all counts are 0.
        self.segment.claims()[self.slot].store(NOBODY, Ordering::SeqCst);
    }
}

impl StorePlace {
    /// # Errors
    /// The store is on another machine.
    pub(crate) fn local(&self) -> Result<&Shared> {
        match self {
            Self::Local(shared) => Ok(shared),
            Self::Remote(peer) => Err(Error::invalid(format!(
                "the trajectory is in the memory of {} on another machine; collect it",
                peer.what()
            ))),
        }
    }

    pub(super) fn shard(&self) -> Result<Shard> {
        match self {
            Self::Local(shared) => Ok(shared.shard),
            Self::Remote(peer) => {
                let described = peer.described();
                Shard::new(described.rank, described.ranks, described.capacity)
            }
        }
    }
}

impl Shared {
    /// Pins rows, at positions of a list, and passes each one to `found`. Omits those that are not selectable, or were
    /// sampled the maximum number of times. After an error, rows that were not passed are not pinned.
    pub(super) fn pin_rows(
        &self,
        wanted: &[(usize, u64)],
        is_sample: bool,
        mut found: impl FnMut(usize, Trajectory),
    ) -> Result<()> {
        let segment = &self.segment;
        let counts = segment.pins(self.slot);
        for wanted in wanted.chunks(ROWS_AT_ONCE) {
            let mut rows = [0; ROWS_AT_ONCE];
            for (row, (_, index)) in rows.iter_mut().zip(wanted) {
                *row = narrow(self.shard.local(*index)?);
            }
            let rows = &rows[..wanted.len()];
            self.fetch(rows);
            pin::announce(rows.iter().map(|at| &counts[*at]));
            crate::kill::kill_point!("pinned");
            for (number, (&(position, index), &at)) in wanted.iter().zip(rows).enumerate() {
                match self.confirm(index, at, is_sample) {
                    Ok(Some(row)) => found(position, row),
                    Ok(None) => {}
                    Err(error) => {
                        rows[number + 1..].iter().for_each(|at| pin::unpin(&counts[*at]));
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads all words that pinning needs, so that the cache lines of all rows are fetched at the same time. Counting
    /// pins, by contrast, waits for one line after the other.
    fn fetch(&self, rows: &[usize]) {
        let segment = &self.segment;
        let (pins, states, sampled) = (segment.pins(self.slot), segment.states(), segment.sampled());
        let (inserted, lengths, weights) = (segment.inserted(), segment.lengths(), segment.weights());
        let mut all = 0;
        for &at in rows {
            let halves = [&pins[at], &lengths[at], &weights[at]].map(|half| half.load(Ordering::Relaxed));
            let words = [&states[at], &sampled[at], &inserted[at]].map(|word| word.load(Ordering::Relaxed));
            all ^= words[0] ^ words[1] ^ words[2] ^ u64::from(halves[0] ^ halves[1] ^ halves[2]);
        }
        std::hint::black_box(all);
    }

    /// Confirms the announced pin of a row. Any process with the segment can write the row's length, which all readers
    /// use, so it is checked here.
    fn confirm(&self, index: u64, at: usize, is_sample: bool) -> Result<Option<Trajectory>> {
        let segment = &self.segment;
        let count = &segment.pins(self.slot)[at];
        let Some(generation) = self.generation(at, count)? else { return Ok(None) };
        let length = u64::from(segment.lengths()[at].load(Ordering::Relaxed));
        if length > segment.schema().max_steps() {
            pin::unpin(count);
            return Err(Error::corrupt(format!(
                "{} is damaged: trajectory {index} has a length of {length}, but the limit is {} steps",
                segment.what(),
                segment.schema().max_steps()
            )));
        }
        let sampled =
            if is_sample { self.sample(at) } else { Some(segment.sampled()[at].load(Ordering::Relaxed)) };
        let Some(sampled) = sampled else {
            pin::unpin(count);
            return Ok(None);
        };
        let row = Trajectory {
            index,
            generation,
            length,
            weight: f32::from_bits(segment.weights()[at].load(Ordering::Relaxed)),
            inserted: segment.inserted()[at].load(Ordering::Relaxed),
            sampled,
        };
        Ok(Some(row))
    }

    /// Returns the generation of a row whose pin was announced and is now held, or `None` if the row is not selectable.
    fn generation(&self, at: usize, count: &AtomicU32) -> Result<Option<u64>> {
        let state = &self.segment.states()[at];
        for look in 0..LOOKS {
            let outcome = if look == 0 { pin::confirm(state, count) } else { pin::pin(state, count) };
            match outcome {
                Pin::Held(generation) => return Ok(Some(generation)),
                Pin::Refused => return Ok(None),
                Pin::Undecided => std::thread::yield_now(),
            }
        }
        self.segment.check_owner()?;
        Err(Error::unavailable("the controller is taking unusually long to decide about a row; try again"))
    }

    /// Counts a sample of a pinned row. Returns `None` if the row was sampled the maximum number of times.
    fn sample(&self, at: usize) -> Option<u64> {
        let segment = &self.segment;
        let sampled = &segment.sampled()[at];
        let before = sampled.fetch_add(1, Ordering::SeqCst);
        let limit = segment.header().shape.max_times_sampled;
        if limit > 0 && before >= limit {
            sampled.fetch_sub(1, Ordering::SeqCst);
            // A process that is killed after it has counted the last sample leaves the weight, and the row would be
            // drawn again and again.
            if segment.weights()[at].swap(0, Ordering::SeqCst) != 0 {
                segment.note_change();
            }
            return None;
        }
        crate::kill::kill_point!("counted");
        // Any process with the segment can write the count.
        let sampled_times = before.saturating_add(1);
        if sampled_times == limit {
            segment.weights()[at].store(0, Ordering::SeqCst);
            segment.note_change();
            segment.exhausted().fetch_add(1, Ordering::Release);
        }
        Some(sampled_times)
    }

    /// Releases a pin on a row.
    pub(super) fn release(&self, index: u64) {
        let local = self.shard.local(index).expect("was pinned by it");
        pin::unpin(&self.segment.pins(self.slot)[narrow(local)]);
    }

    /// Wakes waiters for a row.
    pub(super) fn notify_released(&self) {
        let (releases, waiting) = self.segment.releases();
        if waiting.load(Ordering::SeqCst) > 0 {
            releases.fetch_add(1, Ordering::SeqCst);
            futex::wake(releases);
        }
    }
}
