//! Requests to a table, and their immediate results.

use std::sync::Arc;
use std::time::Duration;

use relive_table::Sampled;

use crate::error::EngineError;
use crate::limits::MAX_SAMPLES_PER_REQUEST;

/// A request for samples.
#[derive(Debug, Clone)]
pub struct SampleRequest {
    /// The maximum number of samples, at least 1.
    pub limit: usize,
    /// The batch ends once the encoded chunks of its samples reach this number of bytes.
    pub max_bytes: u64,
    /// The maximum time to wait for the first sample. `None` means to wait until the table is closed.
    pub timeout: Option<Duration>,
    /// The caller, as shown in the list of waiters.
    pub who: Arc<str>,
}

/// The number of samples for which memory is allocated before the lock is taken. It is usually enough for a learner's
/// batch. Larger requests allocate more memory as samples are taken.
const SAMPLES_IN_ADVANCE: usize = 1_024;

impl SampleRequest {
    /// Allocates room for the samples.
    ///
    /// # Errors
    /// The number of samples is out of range.
    pub(crate) fn room(&self) -> Result<Vec<Sampled>, EngineError> {
        if self.limit == 0 || self.limit > MAX_SAMPLES_PER_REQUEST {
            let got = i64::try_from(self.limit).unwrap_or(i64::MAX);
            return Err(EngineError::SampleCount { got, limit: MAX_SAMPLES_PER_REQUEST });
        }
        Ok(Vec::with_capacity(self.limit.min(SAMPLES_IN_ADVANCE)))
    }
}

/// The result of a run of inserts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[must_use]
pub struct Accepted {
    /// The number of inserts that are still waiting; their outcomes are reported to the
    /// [`Confirmations`](crate::Confirmations).
    pub deferred: usize,
    /// Whether the number of waiting inserts in the table is so large that the server should stop reading its streams.
    pub saturated: bool,
}

/// An update of a priority, or a deletion.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mutation {
    /// Deletes the item `key`; does nothing if there is no such item.
    Delete {
        /// The item.
        key: u64,
    },
    /// Sets the priority of the item `key`; does nothing if there is no such item.
    Update {
        /// The item.
        key: u64,
        /// The new priority.
        priority: f64,
    },
}
