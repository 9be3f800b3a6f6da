//! Serves a table's waiters: inserts and samples alternate, each queue in order, until no operation can proceed.

use std::collections::VecDeque;
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

    /// Drops the expired inserts, which may wait between inserts without a deadline.
    fn drop_expired_inserts(&mut self, after: &mut AfterUnlock) {
        let Some(deadline) = self.next_deadline else { return };
        let now = Instant::now();
        if now < deadline {
            return;
        }
        let is_expired = |waiter: &WaitingInsert| waiter.deadline.is_some_and(|deadline| deadline <= now);
        let (expired, kept): (VecDeque<_>, _) = self.inserts.drain(..).partition(is_expired);
        self.inserts = kept;
        self.next_deadline = self.inserts.iter().filter_map(|waiter| waiter.deadline).min();
        if let Some(first) = expired.front() {
            tracing::warn!(
                table = self.table.config().name,
                inserts = expired.len(),
                first_item = first.item.key,
                from = &*first.who,
                "dropped inserts: the rate limiter did not permit them in time"
            );
        }
        after.abandoned.extend(expired.into_iter().map(|waiter| waiter.item));
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use rand_core::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use relive_table::{Table, TableConfig};
    use relive_tensor::Ledger;
    use relive_testkit::data;

    use super::*;
    use crate::memory::Memory;
    use crate::table::{Confirmations, TableCore};

    #[test]
    fn expired_inserts_are_dropped_behind_inserts_without_a_deadline() {
        let memory = Arc::new(Memory::new(Arc::new(Ledger::default()), None, false, Duration::ZERO));
        let table = Table::new(TableConfig::queue("t", 1), Vec::new()).unwrap();
        let core = TableCore::new(table, Xoshiro256PlusPlus::seed_from_u64(7), &memory);
        let (who, confirmations) = ("test".into(), Arc::new(Confirmations::default()));
        let accepted =
            core.insert([1, 2].map(|key| data::item(key, 1.0)), &who, &confirmations, &mut Vec::new());
        assert_eq!(accepted.unwrap().deferred, 1);
        let now = Instant::now();
        for (key, deadline) in [(3, now), (4, now + Duration::from_secs(3_600)), (5, now)] {
            core.settle(core.insert_detached(data::item(key, 1.0), &who, deadline));
        }
        let waiting = || core.read(|state| state.inserts.iter().map(|it| it.item.key).collect::<Vec<_>>());
        assert_eq!(waiting(), [2, 4]);
        core.change(|change| change.take_samples(1, &mut Vec::new())).unwrap();
        assert_eq!(waiting(), [4]);
    }
}
