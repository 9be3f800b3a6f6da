//! One table with its waiting operations: plain data, changed under one lock.

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

/// A table, its random stream, and the waiting operations.
pub(crate) struct State {
    pub(crate) table: Table,
    pub(crate) rng: Xoshiro256PlusPlus,
    pub(crate) inserts: VecDeque<WaitingInsert>,
    /// No waiting insert expires before this time, or at all if it is `None`.
    pub(crate) next_deadline: Option<Instant>,
    pub(crate) samples: VecDeque<WaitingSample>,
    pub(crate) next_sample_id: u64,
    /// The reason why the table has ended.
    pub(crate) ended: Option<EngineError>,
    /// Whether a sample request had to wait since the last new request arrived; samples report this.
    pub(crate) rate_limited: bool,
    /// When the lock was last passed to the thread that had waited longest.
    handed_on_at: Timestamp,
}

/// An insert that the limiter blocks, or that is queued behind one.
#[derive(Debug)]
pub(crate) struct WaitingInsert {
    pub(crate) item: NewItem,
    pub(crate) who: Arc<str>,
    pub(crate) since: Instant,
    /// The insert is abandoned after this moment; streams set no deadline.
    pub(crate) deadline: Option<Instant>,
    pub(crate) confirmations: Option<Arc<Confirmations>>,
}

/// An incomplete sample request.
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

/// The maximum number of samples that are taken before their sizes are checked: as many as a table draws in one step.
const MAX_STAGE: usize = 32;

impl WaitingSample {
    /// Creates a request without samples.
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

    /// Returns how many samples to take before their sizes are checked: as many as fit if the next samples are as large
    /// as the previous ones.
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
            next_deadline: None,
            samples: VecDeque::new(),
            next_sample_id: 0,
            ended: None,
            rate_limited: false,
            handed_on_at: Timestamp::EPOCH,
        }
    }

    /// Releases the lock of a table.
    ///
    /// After an ordinary unlock, the first thread that requests the lock acquires it. This is usually the thread that
    /// just held the lock, so no thread has to sleep and wake up. However, a thread that relocks continuously could
    /// block others indefinitely. From time to time, the lock is therefore passed to the thread that has waited
    /// longest.
    pub(crate) fn unlock(mut state: MutexGuard<'_, Self>, now: Timestamp) {
        // A handover also happens when the clock is set back.
        let since = now.as_nanos().wrapping_sub(state.handed_on_at.as_nanos());
        if since.unsigned_abs() < UNFAIR_FOR_NANOS {
            return drop(state);
        }
        state.handed_on_at = now;
        sync::unlock_fair(state);
    }

    /// Removes the waiting request `id`. Returns `None` if it was already served.
    pub(crate) fn remove_sample(&mut self, id: u64) -> Option<WaitingSample> {
        let at = self.samples.binary_search_by_key(&id, |waiter| waiter.id).ok()?;
        self.samples.remove(at)
    }
}

impl Slot<SampleResult> {
    /// Returns the result of a request after its deadline: an error, or its samples if it was served at the last
    /// moment.
    pub(crate) fn take_after_deadline(
        &self,
        table: &str,
        reason: Option<String>,
        since: Instant,
    ) -> SampleResult {
        let timeout =
            |reason| EngineError::Timeout { table: table.to_owned(), waited: since.elapsed(), reason };
        match reason {
            Some(reason) => Err(timeout(reason)),
            None => self.take().unwrap_or_else(|| Err(timeout("the samples were already taken".to_owned()))),
        }
    }
}
