//! Information about a sampled item.

use relive_table::{Sampled, SampledRow};

/// Information about an item at the time when it was sampled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampleInfo {
    /// The item's key, for updating its priority or deleting it.
    pub key: u64,
    /// The probability with which this item was sampled; 1 for deterministic samplers. With several servers, the
    /// probability is over all of them: the probability on the item's server times the probability with which that
    /// server was drawn.
    ///
    /// A server is drawn in proportion to the number of items in its table or, if the table's sampler is prioritized,
    /// to the sum of its priorities raised to their exponent. Both are taken from the newest sample from that server.
    pub probability: f64,
    /// The number of items in the table, including this one. With several servers, this is the number of items in the
    /// tables of all participating servers.
    pub table_size: u64,
    /// The item's priority.
    pub priority: f64,
    /// The number of times that the item has been sampled, including this time.
    pub times_sampled: i32,
    /// Whether the rate limiter delayed this sample.
    pub rate_limited: bool,
}

impl From<&Sampled> for SampleInfo {
    fn from(sampled: &Sampled) -> SampleInfo {
        SampleInfo {
            key: sampled.item.key,
            probability: sampled.probability,
            table_size: sampled.table_size,
            priority: sampled.priority,
            times_sampled: sampled.times_sampled,
            rate_limited: sampled.rate_limited,
        }
    }
}

impl From<&SampledRow> for SampleInfo {
    fn from(row: &SampledRow) -> SampleInfo {
        let SampledRow { key, priority, probability, table_size, times_sampled, .. } = *row;
        SampleInfo { key, probability, table_size, priority, times_sampled, rate_limited: false }
    }
}
