//! A set of tables under one roof.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rand::rngs::SysRng;
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use relive_table::{ConfigError, Extension, RestoreError, TableConfig};
use relive_tensor::{ColdStore, Ledger};

use crate::EngineError;
use crate::catalogue::Catalogue;
use crate::checkpoint::{Checkpoints, Plan};
use crate::cold::Cold;
use crate::handle::TableHandle;
use crate::limits::{MAX_TABLES, MEMORY_WAIT, MIN_CHECKPOINT_INTERVAL};
use crate::memory::Memory;
use crate::operate::ChangeLog;
use crate::sync::Mutex;

/// The tables of a server, and the account of its chunks. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

/// What the clones of an engine share.
#[derive(Debug)]
pub(crate) struct Inner {
    tables: Arc<Catalogue>,
    memory: Arc<Memory>,
    /// Random streams for tables to come.
    seeds: Mutex<Xoshiro256PlusPlus>,
    cold: OnceLock<Arc<Cold>>,
    changes: ChangeLog,
    /// Held while the tables are captured, which one caller does at a time.
    capture_turn: Mutex<()>,
    checkpoints: Option<Checkpoints>,
    /// Where the snapshot came from that this was made of.
    loaded: Option<String>,
}

/// Collects the tables of an [`Engine`].
#[derive(Default)]
pub struct EngineBuilder {
    tables: Vec<(TableConfig, Vec<Box<dyn Extension>>)>,
    seed: Option<u64>,
    max_bytes: Option<u64>,
    max_bytes_wait: Option<Duration>,
    pub(crate) checkpoints: Plan,
    cold: Option<Arc<dyn ColdStore>>,
    loaded: Option<String>,
}

/// Why an engine cannot be made.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A table's configuration is out of range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Two tables have one name.
    #[error("two tables are named `{name}`; every table needs a name of its own")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// No table at all.
    #[error("a server needs at least one table")]
    NoTables,
    /// More tables than an engine takes.
    #[error("{got} tables, at most {MAX_TABLES} are supported")]
    TooManyTables {
        /// How many were given.
        got: usize,
    },
    /// No chunk would fit.
    #[error(
        "max_bytes of a server must be at least 1, it is 0; leave it out for a server without this bound"
    )]
    MaxBytes,
    /// A snapshot has a table that the engine was not given.
    #[error("the checkpoint has a table `{name}`, which is not configured; the tables are: {known}")]
    UnknownTable {
        /// Name of the table.
        name: String,
        /// The tables given, joined with commas.
        known: String,
    },
    /// A table's state in a snapshot is one that no table can be in.
    #[error("the checkpoint cannot be restored: {0}")]
    Restore(#[from] RestoreError),
    /// Checkpoints are to be written, but nothing can write them.
    #[error("{option} needs a checkpointer: say where checkpoints are kept")]
    NoCheckpointer {
        /// What asks for them.
        option: &'static str,
    },
    /// Checkpoints are to be written too often.
    #[error("checkpoint_every is {got:?}, at least {MIN_CHECKPOINT_INTERVAL:?} is supported")]
    CheckpointInterval {
        /// The time given.
        got: Duration,
    },
    /// A disk tier without a budget.
    #[error(
        "a disk tier needs max_bytes of the server, the memory that chunks may take before they move to disk"
    )]
    NoBudget,
    /// The system gives no thread.
    #[error("the thread for {purpose} cannot be started: {reason}")]
    Thread {
        /// What it is for: checkpoints by the clock, or moving chunks to disk.
        purpose: &'static str,
        /// What the system says.
        reason: String,
    },
}

impl BuildError {
    fn no_thread(purpose: &'static str, error: &std::io::Error) -> Self {
        Self::Thread { purpose, reason: error.to_string() }
    }
}

impl EngineBuilder {
    /// Adds a table.
    #[must_use]
    pub fn table(self, config: TableConfig) -> Self {
        self.table_with_extensions(config, Vec::new())
    }

    /// Adds a table whose operations run `extensions`.
    #[must_use]
    pub fn table_with_extensions(mut self, config: TableConfig, extensions: Vec<Box<dyn Extension>>) -> Self {
        self.tables.push((config, extensions));
        self
    }

    /// Makes every random choice follow from `seed`, the tables, and the order of operations on each; a table's own
    /// [`seed`](TableConfig::seed) comes first. Otherwise the operating system gives the seed.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Makes [`max_bytes`](Self::max_bytes) a budget: shortly before the chunks take so much memory, those that were not
    /// read lately move to `store`, and are read from there when they are sampled. Writers wait only while the disk does not
    /// keep up. Descriptions of items and chunks, some hundred bytes each, stay in memory and
    /// do not count, nor do chunks under [`MIN_MOVABLE_BYTES`](relive_tensor::MIN_MOVABLE_BYTES).
    ///
    /// An engine that is made of a snapshot can move only those chunks of it that are in a
    /// [ledger of movable chunks](Ledger::of_movable_chunks).
    #[must_use]
    pub fn cold_store(mut self, store: Arc<dyn ColdStore>) -> Self {
        self.cold = Some(store);
        self
    }

    /// Bounds what the chunks of all tables, and those on their way to and from them, take in memory. While they take more,
    /// writers wait ([`MemoryGate`](crate::MemoryGate)); each may go beyond the bound by what it brings at once.
    #[must_use]
    pub fn max_bytes(mut self, max_bytes: u64) -> Self {
        self.max_bytes = Some(max_bytes);
        self
    }

    /// Says where the snapshot lies that the engine is [made of](Self::build_from), for
    /// [`checkpoint_status`](Engine::checkpoint_status).
    #[must_use]
    pub fn loaded_from(mut self, location: impl Into<String>) -> Self {
        self.loaded = Some(location.into());
        self
    }

    /// How long writers wait for memory before they get an error; [`MEMORY_WAIT`] unless set.
    #[must_use]
    pub fn max_bytes_wait(mut self, longest_wait: Duration) -> Self {
        self.max_bytes_wait = Some(longest_wait);
        self
    }

    /// Makes the engine.
    ///
    /// # Errors
    /// Of tables: there are none or too many, two have one name, or a configuration is out of range. Of the whole: a bound of no bytes,
    /// a disk tier without a bound, checkpoints with nothing to write them or too often. Or the system gives no thread.
    pub fn build(self) -> Result<Engine, BuildError> {
        let ledger = if self.cold.is_some() { Ledger::of_movable_chunks() } else { Ledger::default() };
        self.assemble(Arc::new(ledger), |config, extensions, rng, memory| {
            Ok(TableHandle::empty(config, extensions, rng, memory)?)
        })
    }

    pub(crate) fn configs(&self) -> impl Iterator<Item = &TableConfig> {
        self.tables.iter().map(|(config, _)| config)
    }

    /// Makes the engine out of tables that `make` makes, each with a random stream of its own.
    pub(crate) fn assemble(
        self,
        ledger: Arc<Ledger>,
        mut make: impl FnMut(
            TableConfig,
            Vec<Box<dyn Extension>>,
            Xoshiro256PlusPlus,
            &Arc<Memory>,
        ) -> Result<TableHandle, BuildError>,
    ) -> Result<Engine, BuildError> {
        match self.tables.len() {
            0 => return Err(BuildError::NoTables),
            got if got > MAX_TABLES => return Err(BuildError::TooManyTables { got }),
            _ if self.max_bytes == Some(0) => return Err(BuildError::MaxBytes),
            _ if self.max_bytes.is_none() && self.cold.is_some() => return Err(BuildError::NoBudget),
            _ => {}
        }
        self.configs().try_for_each(TableConfig::validate)?;
        let longest_wait = self.max_bytes_wait.unwrap_or(MEMORY_WAIT);
        let memory = Arc::new(Memory::new(ledger, self.max_bytes, self.cold.is_some(), longest_wait));
        let mut rng = self.seed.map_or_else(seed_from_system, Xoshiro256PlusPlus::seed_from_u64);
        let mut tables = Vec::with_capacity(self.tables.len());
        for (config, extensions) in self.tables {
            let stream = stream_of(&config, &mut rng);
            tables.push(make(config, extensions, stream, &memory)?);
        }
        let tables = Catalogue::new(tables)?;
        let engine = Engine::new(Inner {
            tables,
            memory,
            seeds: Mutex::new(rng),
            cold: OnceLock::new(),
            changes: ChangeLog::default(),
            capture_turn: Mutex::new(()),
            checkpoints: self.checkpoints.make()?,
            loaded: self.loaded,
        })?;
        if let (Some(store), Some(budget_bytes)) = (self.cold, self.max_bytes) {
            engine.start_cold(store, budget_bytes)?;
        }
        Ok(engine)
    }
}

/// The random stream of a table: its own, or else the next of the engine's. A table with a seed takes one as well, so that it changes
/// nothing about the others.
pub(crate) fn stream_of(config: &TableConfig, seeds: &mut Xoshiro256PlusPlus) -> Xoshiro256PlusPlus {
    let next = Xoshiro256PlusPlus::from_rng(seeds);
    config.seed.map_or(next, Xoshiro256PlusPlus::seed_from_u64)
}

fn seed_from_system() -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::try_from_rng(&mut SysRng).expect("the operating system gives random bytes")
}

impl Engine {
    /// Begins an engine.
    #[must_use]
    pub fn builder() -> EngineBuilder {
        EngineBuilder::default()
    }

    fn new(inner: Inner) -> Result<Self, BuildError> {
        let inner = Arc::new(inner);
        if let Some(clock) = inner.checkpoints.as_ref().and_then(Checkpoints::clock) {
            let started = clock.start(Arc::downgrade(&inner));
            started.map_err(|error| BuildError::no_thread("checkpoints by the clock", &error))?;
        }
        Ok(Self::of(inner))
    }

    pub(crate) fn of(inner: Arc<Inner>) -> Self {
        Self { inner }
    }

    fn start_cold(&self, store: Arc<dyn ColdStore>, budget_bytes: u64) -> Result<(), BuildError> {
        let cold = Cold::new(store, budget_bytes, Arc::clone(self.ledger()));
        let _ = self.inner.cold.set(Arc::clone(&cold));
        for core in self.inner.tables.cores() {
            // Each core is fresh, so that its cell is empty.
            let _ = core.shared.cold.set(Arc::clone(&cold));
        }
        let started = cold.start(&self.inner.tables);
        started.map_err(|error| BuildError::no_thread("moving chunks to disk", &error))
    }

    /// The table `name`.
    ///
    /// # Errors
    /// There is none of this name; the error lists those there are.
    pub fn table(&self, name: &str) -> Result<TableHandle, EngineError> {
        self.inner.tables.get(name).ok_or_else(|| self.inner.tables.unknown(name))
    }

    /// Every table that there is at this moment, in the order in which they came: whoever locks several takes them in it.
    #[must_use]
    pub fn tables(&self) -> Arc<[TableHandle]> {
        self.inner.tables.all()
    }

    /// Counts how often tables were added and dropped.
    #[must_use]
    pub fn tables_version(&self) -> u64 {
        self.inner.tables.version()
    }

    pub(crate) fn catalogue(&self) -> &Arc<Catalogue> {
        &self.inner.tables
    }

    pub(crate) fn seeds(&self) -> &Mutex<Xoshiro256PlusPlus> {
        &self.inner.seeds
    }

    pub(crate) fn cold_tier(&self) -> Option<&Arc<Cold>> {
        self.inner.cold.get()
    }

    pub(crate) fn change_log(&self) -> &ChangeLog {
        &self.inner.changes
    }

    /// The account of every live chunk made with it.
    #[must_use]
    pub fn ledger(&self) -> &Arc<Ledger> {
        self.bound().ledger()
    }

    pub(crate) fn capture_turn(&self) -> &Mutex<()> {
        &self.inner.capture_turn
    }

    pub(crate) fn checkpoints(&self) -> Option<&Checkpoints> {
        self.inner.checkpoints.as_ref()
    }

    pub(crate) fn loaded(&self) -> Option<&str> {
        self.inner.loaded.as_deref()
    }

    /// The bound on memory.
    pub(crate) fn bound(&self) -> &Arc<Memory> {
        &self.inner.memory
    }

    /// Closes every table; see [`TableHandle::close`]. Who waits for memory goes on, and finds the tables closed. No
    /// checkpoint is due any more; [`shut_down`](Self::shut_down) writes a last one.
    pub fn close(&self) {
        self.inner.tables.close().iter().for_each(TableHandle::close);
        self.bound().close();
        if let Some(clock) = self.checkpoints().and_then(Checkpoints::clock) {
            clock.stop();
        }
    }
}

/// Characters of a name that an error shows.
const MAX_NAME_TOLD: usize = 100;

pub(crate) fn shortened(name: &str) -> String {
    match name.char_indices().nth(MAX_NAME_TOLD) {
        Some((end, _)) => format!("{}…", name.get(..end).unwrap_or_default()),
        None => name.to_owned(),
    }
}
