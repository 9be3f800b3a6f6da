//! What is known of a sampled item.

use relive_table::{Sampled, SampledRow};

/// What is known of an item at the moment of sampling it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampleInfo {
    /// The item's key, by which its priority is changed and it is deleted.
    pub key: u64,
    /// How likely this item was to be sampled, 1 for deterministic samplers. Of many servers: by all of them
    /// together, which is the probability at its server times the one with which that server was drawn.
    ///
    /// A server is drawn in proportion to the number of items of its table or, if its sampler is prioritized, to the
    /// sum of its priorities raised to their power, as the newest sample of it tells.
    pub probability: f64,
    /// Items in the table, this one included; of many servers, in the tables of all that take part.
    pub table_size: u64,
    /// The item's priority.
    pub priority: f64,
    /// How often the item was sampled, this time included.
    pub times_sampled: i32,
    /// Whether the rate limiter held this sample back.
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
