//! Options for a batch sampler.

use std::time::Duration;

use relive_connection::{Error, Result, Transport};

use crate::options::SamplerOptions;

/// The largest number of samples in one batch, and in one request to a server.
const MAX_BATCH_SIZE: usize = 1 << 20;

/// Options for a [`BatchSampler`](crate::BatchSampler).
///
/// | Option | Default |
/// |---|---|
/// | [`new`](Self::new): `batch_size` | required, at least 1 |
/// | [`prefetch`](Self::prefetch) | 4 batches from a server; always 0 in the same process |
/// | [`num_workers`](Self::num_workers) | 1 |
/// | [`timeout`](Self::timeout) | no limit |
/// | [`max_batches`](Self::max_batches) | no end |
///
/// # Example
///
/// ```
/// use std::time::Duration;
///
/// use relive_client::{BatchOptions, Client, ErrorKind};
/// # use relive_engine::Engine;
/// # use relive_table::TableConfig;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = Client::in_process(Engine::builder().table(TableConfig::new("empty")).build()?);
/// let options = BatchOptions::new(256).prefetch(4).timeout(Duration::from_millis(10));
/// let mut batches = client.batches("empty", options)?;
/// let error = batches.next().await.expect("an error, not the end").unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Timeout);
///
/// let error = client.batches("empty", BatchOptions::new(0)).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidArgument);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// The function that creates the sampler checks the options. It returns `InvalidArgument` if `batch_size`,
/// `num_workers` or `max_batches` is 0, or if `batch_size * (prefetch + 1)` exceeds 2²⁰ samples.
#[derive(Debug, Clone, Copy)]
pub struct BatchOptions {
    pub(crate) batch_size: usize,
    pub(crate) prefetch: Option<usize>,
    pub(crate) num_workers: usize,
    pub(crate) timeout: Option<Duration>,
    pub(crate) max_batches: Option<usize>,
}

impl BatchOptions {
    /// The default of [`prefetch`](Self::prefetch) for servers.
    pub const DEFAULT_PREFETCH_TCP: usize = 4;

    /// Creates options for batches of `batch_size` samples.
    #[must_use]
    pub fn new(batch_size: usize) -> BatchOptions {
        BatchOptions { batch_size, prefetch: None, num_workers: 1, timeout: None, max_batches: None }
    }

    /// Sets how many batches are requested from a server before they are needed. Default: 4, or fewer if 5 batches
    /// would exceed 2²⁰ samples. For a table in the same process, there is nothing to wait for, so this option has no
    /// effect, and no batches are requested in advance.
    ///
    /// With 0, the sampler takes samples only while [`next`](crate::BatchSampler::next) waits for them, and only as
    /// many as the batch still needs. After a timeout, it withdraws the request, and keeps the samples that have
    /// arrived for the next batch. Use 0 for tables that remove items when they are sampled, and if sampling must use
    /// up-to-date priorities. Each batch then takes a round trip.
    #[must_use]
    pub fn prefetch(mut self, batches: usize) -> BatchOptions {
        self.prefetch = Some(batches);
        self
    }

    /// Sets how many streams read concurrently. Default: 1. This option has no effect for a table in the same process
    /// or with a [`prefetch`](Self::prefetch) of 0.
    #[must_use]
    pub fn num_workers(mut self, workers: usize) -> BatchOptions {
        self.num_workers = workers;
        self
    }

    /// Sets how long one batch may take before the caller receives a `Timeout` error. Samples that arrived in time are
    /// kept for the next call. Default: no limit.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> BatchOptions {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the number of batches after which the sampler ends. It never requests more samples than these batches need.
    /// Default: no limit.
    #[must_use]
    pub fn max_batches(mut self, batches: usize) -> BatchOptions {
        self.max_batches = Some(batches);
        self
    }

    pub(crate) fn validate(&self) -> Result<()> {
        let at_least_one = [
            ("batch_size", self.batch_size),
            ("num_workers", self.num_workers),
            ("max_batches", self.max_batches.unwrap_or(1)),
        ];
        if let Some((name, _)) = at_least_one.iter().find(|(_, value)| *value == 0) {
            return Err(Error::invalid(format!("{name} must be at least 1")));
        }
        let prefetch = self.prefetch.unwrap_or(0);
        match self.batch_size.checked_mul(prefetch.saturating_add(1)) {
            Some(samples) if samples <= MAX_BATCH_SIZE => Ok(()),
            _ => Err(Error::invalid(format!(
                "batch_size is {} and prefetch is {prefetch}, which is more than {MAX_BATCH_SIZE} samples at once; lower one of them",
                self.batch_size,
            ))),
        }
    }

    /// Returns the number of batches that are requested in advance.
    pub(crate) fn batches_ahead(&self, transport: Transport) -> usize {
        if transport == Transport::InProcess {
            return 0;
        }
        let default = Self::DEFAULT_PREFETCH_TCP.min((MAX_BATCH_SIZE / self.batch_size).saturating_sub(1));
        self.prefetch.unwrap_or(default)
    }

    /// Returns options for the streams of a remote table, for a reader that already has `samples_ready` samples.
    pub(crate) fn of_streams(&self, samples_ready: usize) -> SamplerOptions {
        let at_once = self.batch_size.saturating_mul(self.batches_ahead(Transport::Tcp).max(1));
        let options = SamplerOptions::default()
            .num_workers(self.num_workers.min(at_once))
            .max_in_flight_samples_per_worker(at_once.div_ceil(self.num_workers))
            .max_samples_per_stream(usize::MAX);
        match self.max_batches.and_then(|batches| batches.checked_mul(self.batch_size)) {
            Some(samples) => options.max_samples(samples.saturating_sub(samples_ready)),
            None => options,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_process_batches_are_never_prefetched() {
        let options = BatchOptions::new(8);
        assert_eq!(options.batches_ahead(Transport::InProcess), 0);
        assert_eq!(options.batches_ahead(Transport::Tcp), 4);
        assert_eq!(options.prefetch(3).batches_ahead(Transport::InProcess), 0);
        assert_eq!(options.prefetch(3).batches_ahead(Transport::Tcp), 3);
        assert_eq!(options.prefetch(0).batches_ahead(Transport::Tcp), 0);
        assert_eq!(BatchOptions::new(1 << 18).batches_ahead(Transport::Tcp), 3);
        assert_eq!(BatchOptions::new(1 << 20).batches_ahead(Transport::Tcp), 0);
    }

    #[test]
    fn workers_share_the_prefetch() {
        let streams = BatchOptions::new(100).num_workers(3).max_batches(7).of_streams(0);
        assert_eq!((streams.max_in_flight, streams.max_samples), (134, Some(700)));
        assert_eq!(BatchOptions::new(100).prefetch(0).of_streams(0).max_in_flight, 100);
    }

    #[test]
    fn zero_and_excessive_options_are_refused_by_name() {
        for (bad, name) in [
            (BatchOptions::new(0), "batch_size"),
            (BatchOptions::new(1).num_workers(0), "num_workers"),
            (BatchOptions::new(1).max_batches(0), "max_batches"),
            (BatchOptions::new(1 << 19).prefetch(2), "prefetch is 2"),
            (BatchOptions::new(usize::MAX), "batch_size"),
        ] {
            let error = bad.validate().unwrap_err();
            assert_eq!(error.kind(), relive_connection::ErrorKind::InvalidArgument);
            assert!(error.to_string().contains(name), "{error}");
        }
        assert!(BatchOptions::new(1 << 20).validate().is_ok());
    }
}
