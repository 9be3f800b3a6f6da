//! The blocking samplers.

use std::sync::Arc;
use std::time::Duration;

use super::runtime::OwnRuntime;
use crate::{Result, Sample, SampleBatch};

/// Reads batches of samples from one table, as an iterator that ends after `max_batches`. See [`crate::BatchSampler`].
#[derive(Debug)]
pub struct BatchSampler {
    // This field is dropped before the runtime, because dropping the reader ends tasks on the runtime.
    inner: crate::BatchSampler,
    runtime: Arc<OwnRuntime>,
}

impl BatchSampler {
    pub(super) fn new(runtime: Arc<OwnRuntime>, inner: crate::BatchSampler) -> BatchSampler {
        BatchSampler { inner, runtime }
    }

    /// Returns the name of the table.
    pub fn table(&self) -> &str {
        self.inner.table()
    }

    /// Returns the next batch, with a timeout for this call. If it is `None`, waits indefinitely.
    ///
    /// # Errors
    /// The errors of [`crate::BatchSampler::next`].
    pub fn next_within(&mut self, timeout: Option<Duration>) -> Option<Result<SampleBatch>> {
        self.runtime.block_on(self.inner.next_within(timeout))
    }
}

impl Iterator for BatchSampler {
    type Item = Result<SampleBatch>;

    fn next(&mut self) -> Option<Result<SampleBatch>> {
        self.runtime.block_on(self.inner.next())
    }
}

/// Reads samples from one table, as an iterator that ends after `max_samples`. See [`crate::Sampler`].
#[derive(Debug)]
pub struct Sampler {
    // This field is dropped before the runtime, because dropping the reader ends tasks on the runtime.
    inner: crate::Sampler,
    runtime: Arc<OwnRuntime>,
}

impl Sampler {
    pub(super) fn new(runtime: Arc<OwnRuntime>, inner: crate::Sampler) -> Sampler {
        Sampler { inner, runtime }
    }

    /// Returns the name of the table.
    pub fn table(&self) -> &str {
        self.inner.table()
    }

    /// Returns the next sample after waiting at most `timeout` for any reason, or `None` after `max_samples`.
    ///
    /// # Errors
    /// The errors of [`crate::Sampler::next_with_timeout`].
    pub fn next_with_timeout(&mut self, timeout: Duration) -> Option<Result<Sample>> {
        self.runtime.block_on(self.inner.next_with_timeout(timeout))
    }

    /// Returns the next `num_samples` samples, or fewer if the end or an error is reached first.
    ///
    /// # Errors
    /// The errors of [`crate::Sampler::next_batch`].
    pub fn next_batch(&mut self, num_samples: usize) -> Result<Vec<Sample>> {
        self.runtime.block_on(self.inner.next_batch(num_samples))
    }

    /// Like [`next_batch`](Self::next_batch), but returns the samples that have arrived within `timeout`.
    ///
    /// # Errors
    /// The errors of [`crate::Sampler::next_batch_with_timeout`].
    pub fn next_batch_with_timeout(&mut self, num_samples: usize, timeout: Duration) -> Result<Vec<Sample>> {
        self.runtime.block_on(self.inner.next_batch_with_timeout(num_samples, timeout))
    }
}

impl Iterator for Sampler {
    type Item = Result<Sample>;

    fn next(&mut self) -> Option<Result<Sample>> {
        self.runtime.block_on(self.inner.next())
    }
}
