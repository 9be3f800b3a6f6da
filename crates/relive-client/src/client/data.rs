//! Writing and reading items.

use std::time::Duration;

use relive_connection::Result;
use relive_reader::{BatchOptions, BatchSampler, ItemPage, Sample, SampleCall, Sampler, SamplerOptions};
use relive_tensor::{Nest, Tensor};
use relive_writer::{
    StructuredConfig, StructuredWriter, StructuredWriterOptions, TrajectoryWriter, TrajectoryWriterOptions,
};

use super::Client;

impl Client {
    /// A writer of steps and items. It connects with its first item.
    ///
    /// # Errors
    /// `InvalidArgument` for options that contradict each other.
    pub fn trajectory_writer(&self, options: TrajectoryWriterOptions) -> Result<TrajectoryWriter> {
        TrajectoryWriter::new(self.backend.clone(), &options)
    }

    /// A writer that makes items by itself, from patterns.
    ///
    /// # Errors
    /// `InvalidArgument` for no configuration, or one that is wrong; the error says which and why.
    pub fn structured_writer(&self, configs: Vec<StructuredConfig>) -> Result<StructuredWriter> {
        self.structured_writer_with(configs, StructuredWriterOptions::default())
    }

    /// [`structured_writer`](Self::structured_writer) with other than the default options.
    ///
    /// # Errors
    /// As [`structured_writer`](Self::structured_writer).
    pub fn structured_writer_with(
        &self,
        configs: Vec<StructuredConfig>,
        options: StructuredWriterOptions,
    ) -> Result<StructuredWriter> {
        StructuredWriter::new(self.backend.clone(), configs, &options)
    }

    /// A reader of samples of `table`. It begins to fetch at once.
    ///
    /// # Errors
    /// `InvalidArgument` for options out of range.
    pub fn sampler(&self, table: &str, options: SamplerOptions) -> Result<Sampler> {
        Sampler::new(&self.backend, table, &options)
    }

    /// A reader of batches of `table`, whose columns are decoded into one array each.
    ///
    /// # Errors
    /// `InvalidArgument` for options out of range; `NotFound` for an unknown table of this process (a server tells
    /// with the first batch).
    pub fn batches(&self, table: &str, options: BatchOptions) -> Result<BatchSampler> {
        BatchSampler::new(&self.backend, table, &options)
    }

    /// Writes one step as one item into each of the tables in `priorities` (name and priority), and waits until they
    /// are confirmed. The item's columns keep a leading dimension of 1.
    ///
    /// # Errors
    /// `InvalidArgument` for no tables, NaN priorities, and steps that a table's signature or the server refuses,
    /// `NotFound` for an unknown table, `Timeout` after the client's time.
    pub async fn insert(&self, step: &Nest<Tensor>, priorities: &[(&str, f64)]) -> Result<()> {
        relive_writer::insert(&self.backend, step, priorities, true).await
    }

    /// [`insert`](Self::insert) for steps whose names may be others than those of their tables; see
    /// [`check_names`](TrajectoryWriterOptions::check_names).
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub async fn insert_unnamed(&self, step: &Nest<Tensor>, priorities: &[(&str, f64)]) -> Result<()> {
        relive_writer::insert(&self.backend, step, priorities, false).await
    }

    /// Takes `num_samples` samples of `table`; blocks while the table's rate limiter does not let them through.
    ///
    /// # Errors
    /// `Timeout` when not a single sample came in the client's time; when some came, those are returned.
    /// `InvalidArgument` for no samples, `NotFound` for an unknown table.
    pub async fn sample(&self, table: &str, num_samples: usize) -> Result<Vec<Sample>> {
        let options = SamplerOptions::default()
            .max_samples(num_samples)
            .max_in_flight_samples_per_worker(num_samples)
            .rate_limiter_timeout(self.timeout())
            .unavailable_timeout(self.timeout());
        self.sampler(table, options)?.next_batch(num_samples).await
    }

    /// Asks for `num_samples` samples of `table`, to be waited for on the spot. With a timeout, the rate limiter may
    /// hold them back no longer than this; without one, as long as it likes.
    ///
    /// # Errors
    /// `InvalidArgument` for no samples, `NotFound` for an unknown table of this process.
    pub fn sample_call(
        &self,
        table: &str,
        num_samples: usize,
        timeout: Option<Duration>,
    ) -> Result<SampleCall> {
        SampleCall::new(&self.backend, &self.idle, table, num_samples, timeout)
    }

    /// Up to `limit` items of `table` in the order of their insertion, beginning at `from`: 0, or what the page
    /// before says.
    ///
    /// A page makes the server look through the whole table, so that a few large pages are better than many small
    /// ones; it gives at most 100,000. Items that come or leave meanwhile may or may not be on it.
    ///
    /// # Errors
    /// `NotFound` for an unknown table, `Unimplemented` from a dm-reverb server, `Timeout` after the client's time.
    pub async fn items(&self, table: &str, from: u64, limit: usize) -> Result<ItemPage> {
        relive_reader::items(&self.backend, table, from, limit).await
    }

    /// The items of these keys with their data, none where the table has no such item. It does not count as sampling:
    /// their probability is 0.
    ///
    /// # Errors
    /// `NotFound` for an unknown table, `Unimplemented` from a dm-reverb server, `Unavailable` when the server goes
    /// away meanwhile, `Timeout` after the client's time.
    pub async fn get_items(&self, table: &str, keys: &[u64]) -> Result<Vec<Option<Sample>>> {
        relive_reader::get_items(&self.backend, table, keys).await
    }
}
