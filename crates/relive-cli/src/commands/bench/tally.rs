//! The work of clients, and their latencies.

use std::time::Duration;

use hdrhistogram::Histogram;
use relive_client::Error;

/// The longest distinguishable latency, in microseconds: ten minutes.
const MAX_LATENCY_US: u64 = 600_000_000;

/// The number of significant decimal digits of latencies.
const LATENCY_DIGITS: u8 = 3;

/// The work done by one client, or by several clients of one kind.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) items: u64,
    pub(super) bytes: u64,
    /// Failures that ended a client.
    pub(super) errors: Vec<Error>,
    /// The number of items of each merged client.
    clients: Vec<u64>,
    latency_us: Histogram<u64>,
}

impl Tally {
    pub(super) fn new() -> Self {
        let latency_us = Histogram::new_with_bounds(1, MAX_LATENCY_US, LATENCY_DIGITS)
            .expect("the bounds are in order, and there are at most 5 digits");
        Self { items: 0, bytes: 0, errors: Vec::new(), clients: Vec::new(), latency_us }
    }

    /// Counts a batch and its latency.
    pub(super) fn batch(&mut self, items: u64, bytes: u64, took: Duration) {
        self.items += items;
        self.bytes += bytes;
        self.latency_us.saturating_record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    /// Adds the work of one client.
    pub(super) fn merge(&mut self, other: Self) {
        self.items += other.items;
        self.bytes += other.bytes;
        self.errors.extend(other.errors);
        self.clients.push(other.items);
        self.latency_us.add(other.latency_us).expect("both have the same bounds");
    }

    /// Returns the quantile `share` of the latency of batches, in milliseconds, or `None` if there were no batches.
    pub(super) fn latency_ms(&self, share: f64) -> Option<f64> {
        let is_known = !self.latency_us.is_empty();
        is_known.then(|| self.latency_us.value_at_quantile(share) as f64 / 1000.0)
    }

    /// Returns the items of the slowest client as a share of the clients' mean, or `None` if no client processed any
    /// items.
    pub(super) fn slowest_client(&self) -> Option<f64> {
        let slowest = self.clients.iter().min().filter(|_| self.items > 0)?;
        Some(*slowest as f64 * self.clients.len() as f64 / self.items as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tallies_add_up() {
        let (mut a, mut b) = (Tally::new(), Tally::new());
        assert_eq!(a.latency_ms(0.5), None);
        (1..=99).for_each(|ms| a.batch(10, 100, Duration::from_millis(ms)));
        b.batch(1, 1, Duration::from_secs(3600));
        a.merge(b);
        assert_eq!((a.items, a.bytes), (991, 9901));
        let p50 = a.latency_ms(0.5).unwrap();
        assert!((49.9..50.1).contains(&p50), "{p50}");
        let max = a.latency_ms(1.0).unwrap();
        assert!((599_000.0..601_000.0).contains(&max), "an hour counts as the longest latency: {max}");
    }
    #[test]
    fn the_slowest_client_is_compared_with_the_mean() {
        let mut sum = Tally::new();
        assert_eq!(sum.slowest_client(), None);
        for items in [10, 20, 30] {
            let mut client = Tally::new();
            client.batch(items, 0, Duration::from_millis(1));
            sum.merge(client);
        }
        assert_eq!(sum.slowest_client(), Some(0.5));
        sum.merge(Tally::new());
        assert_eq!(sum.slowest_client(), Some(0.0), "one that did nothing counts");
    }
}
