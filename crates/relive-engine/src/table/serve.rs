//! Serves a table's waiters: inserts and samples alternate, each queue in order, until no operation can proceed.

use std::time::Instant;

use relive_table::{InsertOutcome, NewItem, Timestamp};
use relive_tensor::Trajectory;

use super::after_unlock::AfterUnlock;
use super::state::{State, WaitingInsert};
use crate::error::EngineError;

impl State {
    /// Serves every waiter that the limiter now allows. Called after each change.
    ///
    /// One insert and one batch of samples alternate, so that neither side starves. A request that has only some of its
    /// samples is complete once no other operation can proceed.
    pub(crate) fn serve_waiters(&mut self, now: Timestamp, after: &mut AfterUnlock) {
        while self.serve_insert(now, after) | self.serve_sample(after) {}
        while self.samples.front().is_some_and(|head| !head.taken.is_empty()) {
            self.finish_head(after);
        }
        self.rate_limited |= !self.samples.is_empty();
        after.effects.append(&mut self.table.drain_effects());
    }

    fn serve_insert(&mut self, now: Timestamp, after: &mut AfterUnlock) -> bool {
        self.drop_expired_inserts(after);
        if self.inserts.is_empty() || self.table.insert_shortfall().is_some() {
            return false;
        }
        let Some(waiter) = self.inserts.pop_front() else { return false };
        let WaitingInsert { item, confirmations, .. } = waiter;
        let key = item.key;
        let outcome = self.insert_now(item, now, after).map(|_| key);
        if let Some(confirmations) = confirmations {
            after.settled.push((confirmations, outcome));
        }
        true
    }

    /// Inserts an item that the limiter allows now.
    pub(crate) fn insert_now(
        &mut self,
        item: NewItem,
        now: Timestamp,
        after: &mut AfterUnlock,
    ) -> Result<InsertOutcome, EngineError> {
        let bytes = item.trajectory.encoded_size_bytes();
        let outcome = self
            .table
            .insert(item, now, &mut self.rng, &mut after.freed)
            .map_err(|source| EngineError::Insert { source })?;
        if matches!(outcome, InsertOutcome::Inserted { .. }) {
            after.added_bytes += bytes;
        }
        Ok(outcome)
    }

    fn drop_expired_inserts(&mut self, after: &mut AfterUnlock) {
        while let Some(deadline) = self.inserts.front().and_then(|head| head.deadline) {
            if Instant::now() < deadline {
                return;
            }
            let Some(waiter) = self.inserts.pop_front() else { return };
            tracing::warn!(
                table = self.table.config().name,
                item = waiter.item.key,
                from = &*waiter.who,
                "dropped an insert: the rate limiter did not permit it in time"
            );
            after.abandoned.push(waiter.item);
        }
    }

    /// Takes as many samples as possible for the first request. Returns true if it took any.
    fn serve_sample(&mut self, after: &mut AfterUnlock) -> bool {
        let Self { table, rng, samples, rate_limited, .. } = self;
        let Some(head) = samples.front_mut() else { return false };
        let before = head.taken.len();
        while !head.is_complete() {
            let known = head.taken.len();
            if table.sample_many(head.stage(), rng, &mut head.taken, &mut after.freed) == 0 {
                break;
            }
            for sampled in head.taken.iter_mut().skip(known) {
                sampled.rate_limited = *rate_limited;
                if head.max_bytes < u64::MAX {
                    head.taken_bytes += cost_bytes(&sampled.item.trajectory);
                }
            }
        }
        let moved = head.taken.len() > before;
        if head.is_complete() {
            self.finish_head(after);
        }
        moved
    }

    fn finish_head(&mut self, after: &mut AfterUnlock) {
        if let Some(head) = self.samples.pop_front() {
            after.wakers.extend(head.slot.fill(Ok(head.taken)));
        }
    }
}

/// Returns the size of a sample within its batch: its chunks, and its slices beyond the usual few, which are sent with
/// every sample.
pub(crate) fn cost_bytes(trajectory: &Trajectory) -> u64 {
    let slices = trajectory.num_slices().saturating_sub(USUAL_SLICES) as u64;
    trajectory.encoded_size_bytes() + slices * SLICE_BYTES
}

const USUAL_SLICES: usize = 16;
const SLICE_BYTES: u64 = 25;
