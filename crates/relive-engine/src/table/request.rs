//! What callers ask of a table, and what they are told at once.

use std::sync::Arc;
use std::time::Duration;

use relive_table::Sampled;

use crate::error::EngineError;
use crate::limits::MAX_SAMPLES_PER_REQUEST;

/// What a caller wants to sample.
#[derive(Debug, Clone)]
pub struct SampleRequest {
    /// Most samples to take, at least 1.
    pub limit: usize,
    /// The batch ends once the encoded chunks of its samples reach this many bytes.
    pub max_bytes: u64,
    /// Longest time to wait for the first sample; `None` waits until the table is closed.
    pub timeout: Option<Duration>,
    /// Who asks: shown in the list of waiters.
    pub who: Arc<str>,
}

/// Samples for which memory is taken before the lock; a learner's batch usually fits. Larger requests take more as it
/// fills.
const SAMPLES_IN_ADVANCE: usize = 1_024;

impl SampleRequest {
    /// A place for the samples.
    ///
    /// # Errors
    /// Their number cannot be taken at once.
    pub(crate) fn room(&self) -> Result<Vec<Sampled>, EngineError> {
        if self.limit == 0 || self.limit > MAX_SAMPLES_PER_REQUEST {
            let got = i64::try_from(self.limit).unwrap_or(i64::MAX);
            return Err(EngineError::SampleCount { got, limit: MAX_SAMPLES_PER_REQUEST });
        }
        Ok(Vec::with_capacity(self.limit.min(SAMPLES_IN_ADVANCE)))
    }
}

/// What became of a run of inserts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[must_use]
pub struct Accepted {
    /// Inserts that this call left waiting; their outcomes come through the [`Confirmations`](crate::Confirmations).
    pub deferred: usize,
    /// Whether the table has so many inserts waiting that its streams should stop reading.
    pub saturated: bool,
}

/// A priority to set, or an item to remove.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mutation {
    /// Removes the item `key`; nothing happens if there is none.
    Delete {
        /// The item.
        key: u64,
    },
    /// Sets the priority of the item `key`; nothing happens if there is none.
    Update {
        /// The item.
        key: u64,
        /// The new priority.
        priority: f64,
    },
}
