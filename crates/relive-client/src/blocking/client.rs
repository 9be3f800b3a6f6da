//! The blocking client.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use relive_engine::Engine;
use relive_table::{Changed, CheckpointStatus, TableChange, TableConfig};
use relive_tensor::{Nest, Tensor};

use super::runtime::OwnRuntime;
use super::{BatchSampler, Sampler, StructuredWriter, TrajectoryWriter};
use crate::{
    BatchOptions, ClientOptions, ItemPage, Result, Sample, SamplerOptions, ServerChange, ServerInfo,
    ServerState, ServerStatus, StructuredConfig, StructuredWriterOptions, TrajectoryWriterOptions,
};

/// A blocking version of [`crate::Client`]: every call blocks the calling thread.
///
/// A client owns a Tokio runtime with two threads. Clones, writers and samplers share it.
///
/// ```
/// use relive_client::blocking::Client;
/// use relive_client::{Nest, Tensor};
/// use relive_engine::Engine;
/// use relive_table::TableConfig;
///
/// let client = Client::in_process(Engine::builder().table(TableConfig::new("replay")).build()?)?;
/// client.insert(&Nest::Leaf(Tensor::scalar(1.0_f32)), &[("replay", 1.0)])?;
/// let samples = client.sample("replay", 1)?;
/// assert_eq!(samples[0].columns()?[0].to_vec::<f32>()?, [1.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
///
/// Most calls panic when made inside an async task of a Tokio runtime, because they would block the runtime's thread.
#[derive(Clone)]
pub struct Client {
    runtime: Arc<OwnRuntime>,
    inner: crate::Client,
}

impl Client {
    /// Creates a client for the server at `address`: a `SocketAddr`, `host:port` or `http://host:port`.
    ///
    /// # Errors
    /// The errors of [`crate::Client::connect`], and `Internal` if the threads cannot be started.
    pub fn connect(address: impl ToString) -> Result<Client> {
        Client::connect_with(address, ClientOptions::default())
    }

    /// Like [`connect`](Self::connect), but with `options`.
    ///
    /// # Errors
    /// The errors of [`connect`](Self::connect).
    pub fn connect_with(address: impl ToString, options: ClientOptions) -> Result<Client> {
        let runtime = OwnRuntime::start()?;
        let inner = {
            let _inside = runtime.enter();
            crate::Client::connect_with(address, options)?
        };
        Ok(Client { runtime: Arc::new(runtime), inner })
    }

    /// Creates a client that uses all servers at `addresses` as one.
    ///
    /// # Errors
    /// The errors of [`crate::Client::connect_many`], and `Internal` if the threads cannot be started.
    pub fn connect_many<A: AsRef<str>>(addresses: &[A]) -> Result<Client> {
        Client::connect_many_with(addresses, ClientOptions::default())
    }

    /// Like [`connect_many`](Self::connect_many), but with `options`.
    ///
    /// # Errors
    /// The errors of [`connect_many`](Self::connect_many).
    pub fn connect_many_with<A: AsRef<str>>(addresses: &[A], options: ClientOptions) -> Result<Client> {
        let runtime = OwnRuntime::start()?;
        let inner = {
            let _inside = runtime.enter();
            crate::Client::connect_many_with(addresses, options)?
        };
        Ok(Client { runtime: Arc::new(runtime), inner })
    }

    /// Returns the state of each of the client's servers; see [`crate::Client::servers`].
    pub fn servers(&self) -> Vec<ServerState> {
        self.inner.servers()
    }

    /// Returns the events in which servers were left out or rejoined; see [`crate::Client::server_changes`].
    pub fn server_changes(&self) -> Vec<ServerChange> {
        self.inner.server_changes()
    }

    /// Returns a client for a single one of many servers, selected by its address.
    pub fn server(&self, address: &str) -> Option<Client> {
        let inner = self.inner.server(address)?;
        Some(Client { runtime: Arc::clone(&self.runtime), inner })
    }

    /// Creates a client for the tables of `engine`.
    ///
    /// # Errors
    /// `Internal` if the threads cannot be started.
    pub fn in_process(engine: Engine) -> Result<Client> {
        Client::in_process_with(engine, ClientOptions::default())
    }

    /// Like [`in_process`](Self::in_process), but with `options`.
    ///
    /// # Errors
    /// The errors of [`in_process`](Self::in_process).
    pub fn in_process_with(engine: Engine, options: ClientOptions) -> Result<Client> {
        let inner = crate::Client::in_process_with(engine, options);
        Ok(Client { runtime: Arc::new(OwnRuntime::start()?), inner })
    }

    /// Returns a clone with a different timeout; see [`crate::Client::with_timeout`].
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Client {
        Client { runtime: Arc::clone(&self.runtime), inner: self.inner.with_timeout(timeout) }
    }

    /// Returns the async client, for code that runs on this client's runtime.
    pub fn as_async(&self) -> &crate::Client {
        &self.inner
    }

    /// Returns the server's tables. Waits until a server answers.
    ///
    /// # Errors
    /// The errors of [`crate::Client::server_info`].
    pub fn server_info(&self) -> Result<ServerInfo> {
        self.runtime.block_on(self.inner.server_info())
    }

    /// Returns the contents of a Relive server, and its waiting calls with the reason for each wait.
    ///
    /// # Errors
    /// The errors of [`crate::Client::status`].
    pub fn status(&self) -> Result<ServerStatus> {
        self.runtime.block_on(self.inner.status())
    }

    /// Sets the priorities of items by key.
    ///
    /// # Errors
    /// The errors of [`crate::Client::update_priorities`].
    pub fn update_priorities(&self, table: &str, priorities: &[(u64, f64)]) -> Result<()> {
        self.mutate_priorities(table, priorities, &[])
    }

    /// Deletes items by key.
    ///
    /// # Errors
    /// The errors of [`crate::Client::delete_items`].
    pub fn delete_items(&self, table: &str, keys: &[u64]) -> Result<()> {
        self.mutate_priorities(table, &[], keys)
    }

    /// Sets priorities and deletes items.
    ///
    /// # Errors
    /// The errors of [`crate::Client::mutate_priorities`].
    pub fn mutate_priorities(&self, table: &str, updates: &[(u64, f64)], deletes: &[u64]) -> Result<()> {
        match self.inner.mutate_priorities_call(table, updates, deletes) {
            Some(call) => call.finish(),
            None => self.runtime.block_on(self.inner.mutate_priorities(table, updates, deletes)),
        }
    }

    /// Removes all items of `table`.
    ///
    /// # Errors
    /// The errors of [`crate::Client::reset`].
    pub fn reset(&self, table: &str) -> Result<()> {
        self.runtime.block_on(self.inner.reset(table))
    }

    /// Changes the rules of `table` while it is in use.
    ///
    /// # Errors
    /// The errors of [`crate::Client::change_table`].
    pub fn change_table(&self, table: &str, change: TableChange) -> Result<Changed> {
        self.runtime.block_on(self.inner.change_table(table, change))
    }

    /// Pauses inserts into `table`, samples from it, or both.
    ///
    /// # Errors
    /// The errors of [`crate::Client::change_table`].
    pub fn pause_table(&self, table: &str, inserts: bool, samples: bool) -> Result<Changed> {
        self.runtime.block_on(self.inner.pause_table(table, inserts, samples))
    }

    /// Resumes inserts into `table`, samples from it, or both.
    ///
    /// # Errors
    /// The errors of [`crate::Client::change_table`].
    pub fn resume_table(&self, table: &str, inserts: bool, samples: bool) -> Result<Changed> {
        self.runtime.block_on(self.inner.resume_table(table, inserts, samples))
    }

    /// Adds an empty table.
    ///
    /// # Errors
    /// The errors of [`crate::Client::add_table`].
    pub fn add_table(&self, config: TableConfig) -> Result<()> {
        self.runtime.block_on(self.inner.add_table(config))
    }

    /// Drops `table` with all its items.
    ///
    /// # Errors
    /// The errors of [`crate::Client::drop_table`].
    pub fn drop_table(&self, table: &str) -> Result<()> {
        self.runtime.block_on(self.inner.drop_table(table))
    }

    /// Makes the server write a checkpoint, and returns its path.
    ///
    /// # Errors
    /// The errors of [`crate::Client::checkpoint`].
    pub fn checkpoint(&self) -> Result<String> {
        self.runtime.block_on(self.inner.checkpoint())
    }

    /// Returns the state of checkpoints.
    ///
    /// # Errors
    /// The errors of [`crate::Client::checkpoint_status`].
    pub fn checkpoint_status(&self) -> Result<CheckpointStatus> {
        self.runtime.block_on(self.inner.checkpoint_status())
    }

    /// Proposes the structure of the items of `table`.
    ///
    /// # Errors
    /// The errors of [`crate::Client::name_columns`].
    pub fn name_columns(&self, table: &str, structure: &Nest<()>) -> Result<bool> {
        self.runtime.block_on(self.inner.name_columns(table, structure))
    }

    /// Returns the structure of the items of `table`.
    ///
    /// # Errors
    /// The errors of [`crate::Client::column_names`].
    pub fn column_names(&self, table: &str) -> Result<Option<Nest<()>>> {
        self.runtime.block_on(self.inner.column_names(table))
    }

    /// Writes one step as one item into each table.
    ///
    /// # Errors
    /// The errors of [`crate::Client::insert`].
    pub fn insert(&self, step: &Nest<Tensor>, priorities: &[(&str, f64)]) -> Result<()> {
        self.runtime.block_on(self.inner.insert(step, priorities))
    }

    /// Takes samples from `table`.
    ///
    /// # Errors
    /// The errors of [`crate::Client::sample`].
    pub fn sample(&self, table: &str, num_samples: usize) -> Result<Vec<Sample>> {
        self.inner.sample_call(table, num_samples, Some(self.inner.timeout()))?.finish()
    }

    /// Returns a page of the items of `table`, without their data; see [`crate::Client::items`].
    ///
    /// # Errors
    /// The errors of [`crate::Client::items`].
    pub fn items(&self, table: &str, from: u64, limit: usize) -> Result<ItemPage> {
        self.runtime.block_on(self.inner.items(table, from, limit))
    }

    /// Returns the items with the given keys, including their data, without sampling them. Returns `None` for a key
    /// that the table does not have.
    ///
    /// # Errors
    /// The errors of [`crate::Client::get_items`].
    pub fn get_items(&self, table: &str, keys: &[u64]) -> Result<Vec<Option<Sample>>> {
        self.runtime.block_on(self.inner.get_items(table, keys))
    }

    /// Creates a writer for steps and items.
    ///
    /// # Errors
    /// The errors of [`crate::Client::trajectory_writer`].
    pub fn trajectory_writer(&self, options: TrajectoryWriterOptions) -> Result<TrajectoryWriter> {
        let _inside = self.runtime.enter();
        Ok(TrajectoryWriter::new(Arc::clone(&self.runtime), self.inner.trajectory_writer(options)?))
    }

    /// Creates a writer that creates items from patterns.
    ///
    /// # Errors
    /// The errors of [`crate::Client::structured_writer`].
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
        let _inside = self.runtime.enter();
        let writer = self.inner.structured_writer_with(configs, options)?;
        Ok(StructuredWriter::new(Arc::clone(&self.runtime), writer))
    }

    /// Creates a reader for samples.
    ///
    /// # Errors
    /// The errors of [`crate::Client::sampler`].
    pub fn sampler(&self, table: &str, options: SamplerOptions) -> Result<Sampler> {
        let _inside = self.runtime.enter();
        Ok(Sampler::new(Arc::clone(&self.runtime), self.inner.sampler(table, options)?))
    }

    /// Creates a reader for batches.
    ///
    /// # Errors
    /// The errors of [`crate::Client::batches`].
    pub fn batches(&self, table: &str, options: BatchOptions) -> Result<BatchSampler> {
        let _inside = self.runtime.enter();
        Ok(BatchSampler::new(Arc::clone(&self.runtime), self.inner.batches(table, options)?))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
