//! Rate limiters, which have five notations.

use relive_table::{ErrorBuffer, RateLimiterConfig, RateLimiterError};
use serde::Deserialize;

const SPELLINGS: &str = "write { min_size = n }, { samples_per_insert = x, min_size = n, error_buffer = b or [min, max] }, \
                         { samples_per_insert = x, min_size = n, min_diff = a, max_diff = b }, { queue = n } or { stack = n }";

/// The keys of all notations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LimiterEntry {
    min_size: Option<i64>,
    samples_per_insert: Option<f64>,
    error_buffer: Option<BufferEntry>,
    min_diff: Option<f64>,
    max_diff: Option<f64>,
    queue: Option<u32>,
    stack: Option<u32>,
}

/// The range of the cursor: symmetric, or between two bounds.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(untagged, expecting = "error_buffer must be a number or [min_diff, max_diff]")]
enum BufferEntry {
    Around(f64),
    Between([f64; 2]),
}

impl LimiterEntry {
    /// Returns the limiter that the given keys describe.
    ///
    /// # Errors
    /// Keys of different notations are combined, keys are missing, or numbers are out of range.
    pub(super) fn limiter(self) -> Result<RateLimiterConfig, String> {
        let ratio = (self.samples_per_insert, self.error_buffer, self.min_diff, self.max_diff);
        let limiter = match (self.queue, self.stack, self.min_size, ratio) {
            (Some(size), None, None, (None, None, None, None)) => Ok(RateLimiterConfig::queue(size)),
            (None, Some(size), None, (None, None, None, None)) => Ok(RateLimiterConfig::stack(size)),
            (None, None, Some(size), (None, None, None, None)) => RateLimiterConfig::min_size(size),
            (None, None, Some(size), (Some(samples_per_insert), Some(buffer), None, None)) => {
                RateLimiterConfig::sample_to_insert_ratio(samples_per_insert, size, buffer.into())
            }
            (None, None, Some(size), (Some(samples_per_insert), None, Some(min_diff), Some(max_diff))) => {
                let min_size_to_sample = size;
                let limiter =
                    RateLimiterConfig { samples_per_insert, min_size_to_sample, min_diff, max_diff };
                limiter.validate().map(|()| limiter)
            }
            _ => return Err(SPELLINGS.to_owned()),
        };
        limiter.map_err(|error: RateLimiterError| error.to_string())
    }
}

impl From<BufferEntry> for ErrorBuffer {
    fn from(entry: BufferEntry) -> Self {
        match entry {
            BufferEntry::Around(margin) => Self::Around(margin),
            BufferEntry::Between([min_diff, max_diff]) => Self::Between { min_diff, max_diff },
        }
    }
}
