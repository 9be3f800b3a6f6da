//! The status of a sharded table, combined from the statuses of its shards.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use relive_table::{CountError, Paused, Shortfall, TableInfo};

use super::sharded::ShardedTable;
use crate::limits::MAX_LISTED_WAITERS;
use crate::table::{Operation, State, TableCore, TableStatus, WaiterInfo, WaitingSample};

impl ShardedTable {
    /// See [`TableHandle::info`](crate::TableHandle::info). All shards are locked together.
    pub(crate) fn info(&self) -> TableInfo {
        self.merged_info(self.lock_all().iter().map(|state| state.table.info()))
    }

    fn merged_info(&self, shards: impl Iterator<Item = TableInfo>) -> TableInfo {
        let whole = shards.reduce(|whole, shard| TableInfo {
            current_size: whole.current_size + shard.current_size,
            num_deleted_episodes: whole.num_deleted_episodes + shard.num_deleted_episodes,
            num_unique_samples: whole.num_unique_samples + shard.num_unique_samples,
            num_refused_requests: whole.num_refused_requests + shard.num_refused_requests,
            inserts: whole.inserts + shard.inserts,
            samples: whole.samples + shard.samples,
            deletes: whole.deletes + shard.deletes,
            // Each shard reports the number of episodes in all shards.
            ..whole
        });
        let whole = whole.expect("a table has at least one shard");
        TableInfo { config: Arc::clone(&self.config), ..whole }
    }

    /// See [`TableHandle::can_sample`](crate::TableHandle::can_sample).
    pub(crate) fn can_sample(&self, count: i64) -> Result<bool, CountError> {
        if count < 1 { Err(CountError { actual: count }) } else { Ok(self.sample_shortfall().is_none()) }
    }

    /// See [`TableHandle::sample_shortfall`](crate::TableHandle::sample_shortfall).
    pub(crate) fn sample_shortfall(&self) -> Option<Shortfall> {
        self.shortfall(self.lock_all().iter().map(|state| state.table.len()).sum())
    }

    /// See [`TableHandle::status`](crate::TableHandle::status).
    pub(crate) fn status(&self) -> TableStatus {
        // This lock is always taken before the shards' locks.
        let (mut waiters, waiting) = {
            let queue = self.queue.lock();
            let listed: Vec<_> = queue.requests.iter().take(MAX_LISTED_WAITERS).map(waiter).collect();
            (listed, queue.requests.len())
        };
        let bytes = self.bytes();
        let states = self.lock_all();
        let info = self.merged_info(states.iter().map(|state| state.table.info()));
        let sample_shortfall = self.shortfall(info.current_size);
        if let Some(first) = waiters.first_mut() {
            first.shortfall = sample_shortfall;
        }
        let cursor = |state: &State| state.table.rate_limiter().cursor();
        let referenced: i64 = self.cores.iter().map(TableCore::referenced_bytes).sum();
        let undelivered = |core: &TableCore| core.shared.undelivered.load(Ordering::Relaxed);
        TableStatus {
            columns: self.front().shared.columns.names(),
            sample_shortfall,
            insert_shortfall: states.first().and_then(|state| state.table.insert_shortfall()),
            limiter_cursor: states.iter().map(|state| cursor(state)).sum(),
            bytes,
            referenced_bytes: referenced.max(0).cast_unsigned(),
            undelivered_samples: self.cores.iter().map(undelivered).sum(),
            paused: Paused::default(),
            waiting_inserts: 0,
            waiting_samples: waiting,
            waiters_not_listed: waiting - waiters.len(),
            waiters,
            info,
        }
    }
}

fn waiter(waiter: &WaitingSample) -> WaiterInfo {
    WaiterInfo {
        operation: Operation::Sample,
        who: Arc::clone(&waiter.who),
        waiting: waiter.since.elapsed(),
        shortfall: None,
        wanted: waiter.limit as u64,
    }
}
