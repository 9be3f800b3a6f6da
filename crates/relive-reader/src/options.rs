//! Options for a sampler.

use std::time::Duration;

use relive_connection::{Error, Result};

/// The largest number of samples in one request, which servers store as an `int32`.
const MAX_IN_FLIGHT: usize = 0x7fff_ffff;

/// The maximum number of streams of a sampler, each of which is a task.
const MAX_WORKERS: usize = 65_536;

/// Options for a [`Sampler`](crate::Sampler).
///
/// | Option | Default |
/// |---|---|
/// | [`num_workers`](Self::num_workers) | 1 |
/// | [`max_in_flight_samples_per_worker`](Self::max_in_flight_samples_per_worker) | 100 samples |
/// | [`max_samples`](Self::max_samples) | no end |
/// | [`max_samples_per_stream`](Self::max_samples_per_stream) | 10,000 samples |
/// | [`rate_limiter_timeout`](Self::rate_limiter_timeout) | no limit |
/// | [`unavailable_timeout`](Self::unavailable_timeout) | the client's timeout |
///
/// # Example
///
/// ```
/// use std::time::Duration;
///
/// use relive_client::{Client, ErrorKind, SamplerOptions};
/// # use relive_engine::Engine;
/// # use relive_table::TableConfig;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = Client::in_process(Engine::builder().table(TableConfig::new("empty")).build()?);
/// let options = SamplerOptions::default().rate_limiter_timeout(Duration::from_millis(10));
/// let mut sampler = client.sampler("empty", options)?;
/// let error = sampler.next().await.expect("an error, not the end").unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Timeout);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// The function that creates the sampler checks the options. It returns `InvalidArgument` if an option is 0, or if more
/// than 2³¹ − 1 samples could be in flight.
#[derive(Debug, Clone, Copy)]
pub struct SamplerOptions {
    pub(crate) num_workers: usize,
    pub(crate) max_in_flight: usize,
    pub(crate) max_samples: Option<usize>,
    pub(crate) max_samples_per_stream: usize,
    pub(crate) rate_limiter_timeout: Option<Duration>,
    pub(crate) unavailable_timeout: Option<Duration>,
}

impl SamplerOptions {
    /// The default of [`max_in_flight_samples_per_worker`](Self::max_in_flight_samples_per_worker).
    pub const DEFAULT_MAX_IN_FLIGHT: usize = 100;

    /// The default of [`max_samples_per_stream`](Self::max_samples_per_stream).
    pub const DEFAULT_MAX_SAMPLES_PER_STREAM: usize = 10_000;

    /// Sets how many streams read concurrently. Default: 1.
    #[must_use]
    pub fn num_workers(mut self, workers: usize) -> SamplerOptions {
        self.num_workers = workers;
        self
    }

    /// Sets the largest number of samples that a worker may have requested without the caller having taken them.
    /// Default: 100.
    ///
    /// Dropping the sampler loses these samples, which matters for tables that remove items when they are sampled.
    #[must_use]
    pub fn max_in_flight_samples_per_worker(mut self, samples: usize) -> SamplerOptions {
        self.max_in_flight = samples;
        self
    }

    /// Sets the number of samples after which the sampler ends. It never requests more samples. Default: no limit.
    #[must_use]
    pub fn max_samples(mut self, samples: usize) -> SamplerOptions {
        self.max_samples = Some(samples);
        self
    }

    /// Sets the number of samples after which a worker opens a new stream, so that several servers behind one address
    /// share the load. Default: 10,000.
    #[must_use]
    pub fn max_samples_per_stream(mut self, samples: usize) -> SamplerOptions {
        self.max_samples_per_stream = samples;
        self
    }

    /// Sets how long the table's rate limiter may hold samples back before the caller receives a `Timeout` error.
    /// Default: no limit.
    ///
    /// With zero, only samples that are available immediately are returned. The client then sends 1 ms, since servers
    /// interpret zero as "no limit".
    #[must_use]
    pub fn rate_limiter_timeout(mut self, timeout: Duration) -> SamplerOptions {
        self.rate_limiter_timeout = Some(timeout);
        self
    }

    /// Sets how long the server may be unreachable before the caller receives an `Unavailable` error. Default: the
    /// client's timeout.
    #[must_use]
    pub fn unavailable_timeout(mut self, timeout: Duration) -> SamplerOptions {
        self.unavailable_timeout = Some(timeout);
        self
    }

    pub(crate) fn validate(&self) -> Result<()> {
        let at_least_one = [
            ("num_workers", self.num_workers),
            ("max_in_flight_samples_per_worker", self.max_in_flight),
            ("max_samples_per_stream", self.max_samples_per_stream),
            ("max_samples", self.max_samples.unwrap_or(1)),
        ];
        if let Some((name, _)) = at_least_one.iter().find(|(_, value)| *value == 0) {
            return Err(Error::invalid(format!("{name} must be at least 1")));
        }
        if self.num_workers > MAX_WORKERS {
            let got = self.num_workers;
            return Err(Error::invalid(format!("num_workers is {got}; the limit is {MAX_WORKERS}")));
        }
        if self.max_in_flight > MAX_IN_FLIGHT {
            return Err(Error::invalid(format!(
                "max_in_flight_samples_per_worker is {}; the limit is {MAX_IN_FLIGHT}",
                self.max_in_flight
            )));
        }
        Ok(())
    }

    /// Returns the largest number of samples that all workers together may have requested without the caller having
    /// taken them.
    pub(crate) fn capacity(&self) -> usize {
        self.max_in_flight.saturating_mul(self.useful_workers())
    }

    /// Returns the options for one of `servers` servers, without a limit on the number of samples. Each server may have
    /// up to twice its even share of the samples in flight.
    pub(crate) fn of_a_lane(&self, servers: usize) -> SamplerOptions {
        let servers = servers.max(1);
        let workers = self.num_workers.div_ceil(servers);
        let all = self.capacity().saturating_mul(2).div_ceil(servers);
        let max_in_flight = all.div_ceil(workers).clamp(1, MAX_IN_FLIGHT);
        SamplerOptions { num_workers: workers, max_in_flight, max_samples: None, ..*self }
    }

    /// Returns the number of workers that have work.
    pub(crate) fn useful_workers(&self) -> usize {
        let needed = self.max_samples.map_or(usize::MAX, |samples| (samples / self.max_in_flight).max(1));
        self.num_workers.min(needed)
    }

    /// Returns the limiter's timeout for requests: -1 for none, otherwise at least 1 ms.
    pub(crate) fn limiter_timeout_ms(&self) -> i64 {
        self.rate_limiter_timeout
            .map_or(-1, |timeout| i64::try_from(timeout.as_millis()).map_or(-1, |ms| ms.max(1)))
    }
}

impl Default for SamplerOptions {
    fn default() -> SamplerOptions {
        SamplerOptions {
            num_workers: 1,
            max_in_flight: Self::DEFAULT_MAX_IN_FLIGHT,
            max_samples: None,
            max_samples_per_stream: Self::DEFAULT_MAX_SAMPLES_PER_STREAM,
            rate_limiter_timeout: None,
            unavailable_timeout: None,
        }
    }
}

/// The request that a call sends.
#[derive(Debug)]
pub(crate) struct Requested {
    pub(crate) table: String,
    pub(crate) samples: usize,
    pub(crate) timeout: Option<Duration>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_on_the_wire() {
        let ms = |timeout| SamplerOptions::default().rate_limiter_timeout(timeout).limiter_timeout_ms();
        assert_eq!(SamplerOptions::default().limiter_timeout_ms(), -1);
        assert_eq!(ms(Duration::ZERO), 1);
        assert_eq!(ms(Duration::from_secs(2)), 2000);
        assert_eq!(ms(Duration::MAX), -1);
    }

    #[test]
    fn no_more_workers_than_there_is_work() {
        let options = SamplerOptions::default().num_workers(4).max_in_flight_samples_per_worker(10);
        assert_eq!(options.useful_workers(), 4);
        assert_eq!(options.max_samples(25).useful_workers(), 2);
        assert_eq!(options.max_samples(5).useful_workers(), 1);
    }

    #[test]
    fn zeros_are_refused() {
        assert!(SamplerOptions::default().validate().is_ok());
        for bad in [
            SamplerOptions::default().num_workers(0),
            SamplerOptions::default().max_in_flight_samples_per_worker(0),
            SamplerOptions::default().max_samples(0),
            SamplerOptions::default().max_samples_per_stream(0),
            SamplerOptions::default().max_in_flight_samples_per_worker(MAX_IN_FLIGHT + 1),
        ] {
            assert_eq!(bad.validate().unwrap_err().kind(), relive_connection::ErrorKind::InvalidArgument);
        }
    }
}
