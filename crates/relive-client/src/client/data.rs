//! Writes and reads items.

use std::time::Duration;

use relive_connection::{Error, Result};
use relive_reader::{BatchOptions, BatchSampler, ItemPage, Sample, SampleCall, Sampler, SamplerOptions};
use relive_tensor::{Nest, Tensor};
use relive_writer::{
    StructuredConfig, StructuredWriter, StructuredWriterOptions, TrajectoryWriter, TrajectoryWriterOptions,
};

use super::Client;

impl Client {
    /// Creates a writer for steps and items. It connects when it sends its first item.
    ///
    /// # Errors
    /// `InvalidArgument` for contradictory options.
    pub fn trajectory_writer(&self, options: TrajectoryWriterOptions) -> Result<TrajectoryWriter> {
        TrajectoryWriter::new(self.backend.clone(), &options)
    }

    /// Creates a writer that creates items from patterns.
    ///
    /// # Errors
    /// `InvalidArgument` for an empty list or an invalid configuration. The error states which configuration is invalid
    /// and why.
    pub fn structured_writer(&self, configs: Vec<StructuredConfig>) -> Result<StructuredWriter> {
        self.structured_writer_with(configs, StructuredWriterOptions::default())
    }

    /// Like [`structured_writer`](Self::structured_writer), but with `options`.
    ///
    /// # Errors
    /// The errors of [`structured_writer`](Self::structured_writer).
    pub fn structured_writer_with(
        &self,
        configs: Vec<StructuredConfig>,
        options: StructuredWriterOptions,
    ) -> Result<StructuredWriter> {
        StructuredWriter::new(self.backend.clone(), configs, &options)
    }

    /// Creates a reader for samples of `table`, which immediately begins to fetch samples.
    ///
    /// # Errors
    /// `InvalidArgument` for options that are out of range.
    pub fn sampler(&self, table: &str, options: SamplerOptions) -> Result<Sampler> {
        Sampler::new(&self.backend, table, &options)
    }

    /// Creates a reader for batches of `table`. Each column of a batch can be decoded into one array.
    ///
    /// # Errors
    /// `InvalidArgument` for options that are out of range; `NotFound` for an unknown table in this process. A remote
    /// server reports an unknown table when the first batch is requested.
    pub fn batches(&self, table: &str, options: BatchOptions) -> Result<BatchSampler> {
        BatchSampler::new(&self.backend, table, &options)
    }

    /// Writes one step as one item into each table in `priorities` (pairs of name and priority), and waits until the
    /// items are confirmed. The item's columns keep a leading dimension of 1.
    ///
    /// # Errors
    /// `InvalidArgument` for an empty list of tables, a NaN priority, or a step that a table's signature or the server
    /// refuses; `NotFound` for an unknown table; `Timeout` after the client's timeout: the server may still insert the
    /// items later.
    pub async fn insert(&self, step: &Nest<Tensor>, priorities: &[(&str, f64)]) -> Result<()> {
        relive_writer::insert(&self.backend, step, priorities, true).await
    }

    /// Like [`insert`](Self::insert), but the names of the step's columns may differ from the table's; see
    /// [`check_names`](TrajectoryWriterOptions::check_names).
    ///
    /// # Errors
    /// The errors of [`insert`](Self::insert).
    pub async fn insert_unnamed(&self, step: &Nest<Tensor>, priorities: &[(&str, f64)]) -> Result<()> {
        relive_writer::insert(&self.backend, step, priorities, false).await
    }

    /// Takes `num_samples` samples from `table`. Waits while the table's rate limiter blocks samples.
    ///
    /// # Errors
    /// `Timeout` if no sample arrives within the client's timeout (if some samples arrive, they are returned), or
    /// `Unavailable` if the server is unreachable at that moment. `InvalidArgument` for 0 samples; `NotFound` for an
    /// unknown table.
    pub async fn sample(&self, table: &str, num_samples: usize) -> Result<Vec<Sample>> {
        if num_samples == 0 {
            return Err(Error::invalid("sample: num_samples must be at least 1"));
        }
        let options = SamplerOptions::default()
            .max_samples(num_samples)
            .max_in_flight_samples_per_worker(num_samples)
            .rate_limiter_timeout(self.timeout())
            .unavailable_timeout(self.timeout());
        self.sampler(table, options)?.next_batch_with_timeout(num_samples, self.timeout()).await
    }

    /// Requests `num_samples` samples from `table` for a caller that blocks its thread. `timeout` limits how long the
    /// rate limiter may block the samples; without a timeout, there is no limit.
    ///
    /// # Errors
    /// `InvalidArgument` for 0 samples; `NotFound` for an unknown table in this process.
    pub fn sample_call(
        &self,
        table: &str,
        num_samples: usize,
        timeout: Option<Duration>,
    ) -> Result<SampleCall> {
        SampleCall::new(&self.backend, &self.idle, table, num_samples, timeout)
    }

    /// Returns up to `limit` items of `table` in insertion order, beginning at `from`, which is 0 or the position that
    /// the previous page returned.
    ///
    /// Each page makes the server scan the whole table, so a few large pages are better than many small ones. A page
    /// contains at most 100,000 items. Items that are inserted or removed between pages may or may not appear.
    ///
    /// # Errors
    /// `NotFound` for an unknown table; `Unimplemented` from a dm-reverb server; `Timeout` after the client's timeout.
    pub async fn items(&self, table: &str, from: u64, limit: usize) -> Result<ItemPage> {
        relive_reader::items(&self.backend, table, from, limit).await
    }

    /// Returns the items with the given keys, including their data, and `None` for each key that the table does not
    /// have. This does not count as sampling: the probability of these items is 0.
    ///
    /// # Errors
    /// `NotFound` for an unknown table; `Unimplemented` from a dm-reverb server; `Unavailable` if the server
    /// disconnects in the meantime; `Timeout` after the client's timeout.
    pub async fn get_items(&self, table: &str, keys: &[u64]) -> Result<Vec<Option<Sample>>> {
        relive_reader::get_items(&self.backend, table, keys).await
    }
}
