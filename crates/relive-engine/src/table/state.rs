//! One table with the operations that wait for it: plain data, changed under one lock.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use rand_xoshiro::Xoshiro256PlusPlus;
use relive_table::{NewItem, Sampled, Table, Timestamp};

use super::confirmations::Confirmations;
use super::request::SampleRequest;
use super::slot::Slot;
use crate::error::EngineError;
use crate::limits::UNFAIR_FOR_NANOS;
use crate::sync::{self, MutexGuard};

pub(crate) type SampleResult = Result<Vec<Sampled>, EngineError>;

/// A table, its random stream, and who waits.
pub(crate) struct State {
    pub(crate) table: Table,
    pub(crate) rng: Xoshiro256PlusPlus,
    pub(crate) inserts: VecDeque<WaitingInsert>,
    pub(crate) samples: VecDeque<WaitingSample>,
    pub(crate) next_sample_id: u64,
    /// Why nothing goes on any more.
    pub(crate) ended: Option<EngineError>,
    /// Whether a sample request had to wait since the last new one came; samples carry it.
    pub(crate) rate_limited: bool,
    /// When the lock was last given to whoever had waited for it longest.
    handed_on_at: Timestamp,
}

/// An insert that the limiter holds back, or that stands behind one.
#[derive(Debug)]
pub(crate) struct WaitingInsert {
    pub(crate) item: NewItem,
    pub(crate) who: Arc<str>,
    pub(crate) since: Instant,
    /// The insert is given up after this moment; streams set none.
    pub(crate) deadline: Option<Instant>,
    pub(crate) confirmations: Option<Arc<Confirmations>>,
}

/// A sample request that is not complete.
#[derive(Debug)]
pub(crate) struct WaitingSample {
    pub(crate) id: u64,
    pub(crate) limit: usize,
    pub(crate) max_bytes: u64,
    pub(crate) taken: Vec<Sampled>,
    pub(crate) taken_bytes: u64,
    pub(crate) who: Arc<str>,
    pub(crate) since: Instant,
    pub(crate) slot: Arc<Slot<SampleResult>>,
}

/// Samples taken at once while their sizes are looked at: as many as a table takes side by side.
const MAX_STAGE: usize = 32;

impl WaitingSample {
    /// A request that has nothing yet.
    pub(crate) fn new(
        id: u64,
        request: SampleRequest,
        room: Vec<Sampled>,
        since: Instant,
        slot: Arc<Slot<SampleResult>>,
    ) -> Self {
        let SampleRequest { limit, max_bytes, who, timeout: _ } = request;
        Self { id, limit, max_bytes, taken: room, taken_bytes: 0, who, since, slot }
    }

    /// How many samples to take before looking at their size: as many as fit, if they are as large as those before.
    pub(crate) fn stage(&self) -> usize {
        let left = self.limit.saturating_sub(self.taken.len());
        if self.max_bytes == u64::MAX {
            return left;
        }
        let Some(usual) = self.taken_bytes.checked_div(self.taken.len() as u64) else { return left.min(1) };
        let fit = self.max_bytes.saturating_sub(self.taken_bytes).div_ceil(usual.max(1));
        left.min(usize::try_from(fit).unwrap_or(MAX_STAGE).clamp(1, MAX_STAGE))
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.taken.len() >= self.limit || self.taken_bytes >= self.max_bytes
    }
}

impl State {
    pub(crate) fn new(table: Table, rng: Xoshiro256PlusPlus) -> Self {
        Self {
            table,
            rng,
            inserts: VecDeque::new(),
            samples: VecDeque::new(),
            next_sample_id: 0,
            ended: None,
            rate_limited: false,
            handed_on_at: Timestamp::EPOCH,
        }
    }

    /// Ends a use of a table.
    ///
    /// An ordinary unlock lets the first to come have the lock, which is mostly the thread that has just had it: nobody
    /// is put to sleep and woken. But a thread that comes again and again keeps others out for as long as it likes, so
    /// that now and then the lock is given to whoever has waited longest.
    pub(crate) fn unlock(mut state: MutexGuard<'_, Self>, now: Timestamp) {
        // A clock that was set back hands on, too.
        let since = now.as_nanos().wrapping_sub(state.handed_on_at.as_nanos());
        if since.unsigned_abs() < UNFAIR_FOR_NANOS {
            return drop(state);
        }
        state.handed_on_at = now;
        sync::unlock_fair(state);
    }

    /// Removes the waiting request `id`; `None` if it was served already.
    pub(crate) fn remove_sample(&mut self, id: u64) -> Option<WaitingSample> {
        let at = self.samples.binary_search_by_key(&id, |waiter| waiter.id).ok()?;
        self.samples.remove(at)
    }
}

impl Slot<SampleResult> {
    /// The end of a request whose time is up: for this reason, or with its samples if it was served at the last moment.
    pub(crate) fn given_up(&self, table: &str, reason: Option<String>, since: Instant) -> SampleResult {
        let timeout =
            |reason| EngineError::Timeout { table: table.to_owned(), waited: since.elapsed(), reason };
        match reason {
            Some(reason) => Err(timeout(reason)),
            None => self.take().unwrap_or_else(|| Err(timeout("the samples were taken already".to_owned()))),
        }
    }
}
