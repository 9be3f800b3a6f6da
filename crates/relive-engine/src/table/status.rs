//! A table's status for operators: sizes, counters and waiters.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use relive_table::{CountError, Paused, Shortfall, TableInfo};
use relive_tensor::{ChunkTotals, Nest};

use super::state::State;
use super::table_core::TableCore;
use crate::limits::MAX_LISTED_WAITERS;

/// An operation that can wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Inserts an item.
    Insert,
    /// Takes a batch of samples.
    Sample,
}

/// One waiting operation.
#[derive(Debug, Clone, PartialEq)]
pub struct WaiterInfo {
    /// The waiting operation.
    pub operation: Operation,
    /// The caller, as named in the operation.
    pub who: Arc<str>,
    /// How long the operation has waited.
    pub waiting: Duration,
    /// The condition that blocks the operation, or `None` if it is queued behind others.
    pub shortfall: Option<Shortfall>,
    /// The number of items that the operation requests in total.
    pub wanted: u64,
}

impl WaiterInfo {
    /// Returns the condition that blocks the operation, as text.
    #[must_use]
    pub fn reason(&self) -> String {
        self.shortfall.map_or_else(|| "queued behind other calls".to_owned(), |missing| missing.to_string())
    }
}

/// The status of a table at one point in time.
#[derive(Debug, Clone)]
pub struct TableStatus {
    /// Configuration, sizes and counters.
    pub info: TableInfo,
    /// `inserts * samples_per_insert - samples`, where each insert is weighted with the ratio that applied when it was
    /// made.
    pub limiter_cursor: f64,
    /// The chunks to which the items refer, each counted once.
    pub bytes: ChunkTotals,
    /// The number of encoded bytes in the chunks to which items refer. A chunk that two items share is counted twice.
    pub referenced_bytes: u64,
    /// The structure of the items, as [`columns`](crate::TableHandle::columns) returns it.
    pub columns: Option<Arc<Nest<()>>>,
    /// The operations that an operator has paused.
    pub paused: Paused,
    /// The condition that would block an insert now.
    pub insert_shortfall: Option<Shortfall>,
    /// The condition that would block a sample now.
    pub sample_shortfall: Option<Shortfall>,
    /// The number of samples that were taken for callers that no longer existed by then.
    pub undelivered_samples: u64,
    /// The number of waiting inserts.
    pub waiting_inserts: usize,
    /// The number of waiting sample requests.
    pub waiting_samples: usize,
    /// The waiters, inserts before samples, each in queue order.
    pub waiters: Vec<WaiterInfo>,
    /// The number of waiters beyond those listed.
    pub waiters_not_listed: usize,
}

impl TableCore {
    pub(crate) fn info(&self) -> TableInfo {
        self.shared.state.lock().table.info()
    }

    pub(crate) fn can_insert(&self, count: i64) -> Result<bool, CountError> {
        self.shared.state.lock().table.can_insert(count)
    }

    pub(crate) fn can_sample(&self, count: i64) -> Result<bool, CountError> {
        self.shared.state.lock().table.can_sample(count)
    }

    pub(crate) fn insert_shortfall(&self) -> Option<Shortfall> {
        self.shared.state.lock().table.insert_shortfall()
    }

    pub(crate) fn sample_shortfall(&self) -> Option<Shortfall> {
        self.shared.state.lock().table.sample_shortfall()
    }

    /// Returns the number of bytes in the table's chunks that are in memory.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.shared.state.lock().table.bytes().resident_bytes()
    }

    /// Returns the number of encoded bytes to which items refer, which may be negative for a short time; see
    /// [`Shared`](super::table_core::Shared).
    pub(crate) fn referenced_bytes(&self) -> i64 {
        self.shared.referenced_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn status(&self) -> TableStatus {
        let state = self.shared.state.lock();
        let waiting = state.inserts.len() + state.samples.len();
        let waiters: Vec<WaiterInfo> = waiting_inserts(&state).chain(waiting_samples(&state)).collect();
        TableStatus {
            columns: self.shared.columns.names(),
            info: state.table.info(),
            paused: state.table.paused(),
            insert_shortfall: state.table.insert_shortfall(),
            sample_shortfall: state.table.sample_shortfall(),
            limiter_cursor: state.table.rate_limiter().cursor(),
            bytes: state.table.bytes(),
            referenced_bytes: self.referenced_bytes().max(0).cast_unsigned(),
            undelivered_samples: self.shared.undelivered.load(Ordering::Relaxed),
            waiting_inserts: state.inserts.len(),
            waiting_samples: state.samples.len(),
            waiters_not_listed: waiting - waiters.len(),
            waiters,
        }
    }
}

fn waiting_inserts(state: &State) -> impl Iterator<Item = WaiterInfo> {
    let mut shortfall = state.table.insert_shortfall();
    state.inserts.iter().take(MAX_LISTED_WAITERS / 2).map(move |waiter| WaiterInfo {
        operation: Operation::Insert,
        who: Arc::clone(&waiter.who),
        waiting: waiter.since.elapsed(),
        shortfall: shortfall.take(),
        wanted: 1,
    })
}

fn waiting_samples(state: &State) -> impl Iterator<Item = WaiterInfo> {
    let mut shortfall = state.table.sample_shortfall();
    state.samples.iter().take(MAX_LISTED_WAITERS / 2).map(move |waiter| WaiterInfo {
        operation: Operation::Sample,
        who: Arc::clone(&waiter.who),
        waiting: waiter.since.elapsed(),
        shortfall: shortfall.take(),
        wanted: waiter.limit as u64,
    })
}
