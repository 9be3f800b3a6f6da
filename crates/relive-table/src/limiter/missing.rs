//! The condition that an insert or a sample is waiting for.

use super::config::as_f64;
use super::shortfall::Shortfall;
use super::state::RateLimiter;

impl RateLimiter {
    /// Returns the condition that one insert waits for, or `None` if it may proceed.
    pub fn insert_shortfall(&self) -> Option<Shortfall> {
        if self.allows_inserts(1) {
            return None;
        }
        if self.paused().inserts {
            return Some(Shortfall::Paused { what: "inserts" });
        }
        let (cursor, max_diff) = (self.cursor(), self.config().max_diff);
        let excess = cursor + self.config().samples_per_insert - max_diff;
        let missing_samples = least_count(excess, |more| self.with_counts(0, more).allows_inserts(1));
        Some(Shortfall::MaxDiff { cursor, max_diff, missing_samples })
    }

    /// Returns the condition that one sample waits for, or `None` if it may proceed.
    pub fn sample_shortfall(&self) -> Option<Shortfall> {
        if self.allows_samples(1) {
            return None;
        }
        if self.paused().samples {
            return Some(Shortfall::Paused { what: "samples" });
        }
        let required = self.config().min_size_to_sample;
        if self.size() < required {
            return Some(Shortfall::MinSize { size: self.size(), required });
        }
        let (cursor, min_diff) = (self.cursor(), self.config().min_diff);
        let inserts = (min_diff + 1.0 - cursor) / self.config().samples_per_insert;
        let missing_inserts = least_count(inserts, |more| self.with_counts(more, 0).allows_samples(1));
        Some(Shortfall::MinDiff { cursor, min_diff, missing_inserts })
    }
}

/// Returns the smallest count that satisfies `enough`. The search starts from the approximation `estimate`, and
/// corrects its rounding error.
fn least_count(estimate: f64, enough: impl Fn(i64) -> bool) -> u64 {
    const NEVER: u64 = u64::MAX;
    if estimate.is_nan() || estimate >= as_f64(i64::MAX) {
        return NEVER;
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the number is whole, and fits in i64 by the check above"
    )]
    let rounded = estimate.max(1.0).ceil() as i64;
    let candidates = [rounded.saturating_sub(1).max(1), rounded, rounded.saturating_add(1)];
    candidates
        .into_iter()
        .find(|&count| enough(count))
        .and_then(|count| u64::try_from(count).ok())
        .unwrap_or(NEVER)
}
