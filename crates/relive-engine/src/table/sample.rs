//! Samples from a table: requests, timeouts, withdrawals.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use relive_table::Sampled;

use super::after_unlock::AfterUnlock;
use super::request::SampleRequest;
use super::slot::Slot;
use super::state::SampleResult;
use super::table_core::TableCore;
use crate::error::EngineError;

impl TableCore {
    pub(crate) fn enqueue_sample(
        &self,
        request: SampleRequest,
        since: Instant,
    ) -> Result<(u64, Arc<Slot<SampleResult>>), EngineError> {
        let room = request.room()?;
        self.change(|change| change.enqueue_sample(request, room, since))
    }

    /// Ends a request after its deadline. Returns its samples if it was served at the last moment.
    pub(crate) fn give_up_sample(&self, id: u64, slot: &Slot<SampleResult>, since: Instant) -> SampleResult {
        let reason = {
            let mut state = self.shared.state.lock();
            state.remove_sample(id).map(|_| match state.table.sample_shortfall() {
                Some(shortfall) => shortfall.to_string(),
                None => "other requests were served first".to_owned(),
            })
        };
        slot.take_after_deadline(self.name(), reason, since)
    }

    /// Withdraws a request. Returns the samples that were already taken for the request.
    pub(crate) fn withdraw_sample(&self, id: u64, slot: &Slot<SampleResult>) -> Vec<Sampled> {
        let waiting = self.shared.state.lock().remove_sample(id);
        match waiting {
            Some(waiting) => waiting.taken,
            None => slot.take().and_then(Result::ok).unwrap_or_default(),
        }
    }

    /// Counts samples that were taken for a caller and did not reach it.
    pub(crate) fn count_undelivered(&self, samples: usize) {
        if samples > 0 {
            self.shared.undelivered.fetch_add(samples as u64, Ordering::Relaxed);
            tracing::debug!(table = self.name(), samples, "samples did not reach their callers");
        }
    }

    /// Samples up to `count` items for a caller that does not wait. Returns the number of items left and the remaining
    /// work.
    pub(crate) fn take_samples(
        &self,
        count: usize,
        out: &mut Vec<Sampled>,
    ) -> (Result<u64, EngineError>, AfterUnlock) {
        self.locked(|change| change.take_samples(count, out))
    }
}
