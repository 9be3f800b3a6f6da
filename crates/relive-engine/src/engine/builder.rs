//! Builds an engine from settings and tables.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rand::rngs::SysRng;
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use relive_table::{CheckpointProgress, Extension, SavedCheckpoint, Snapshot, TableConfig};
use relive_tensor::{ColdStore, Ledger};

use super::change_log::ChangeLog;
use super::checkpoint::begin_due;
use super::shared::{Engine, Inner};
use crate::catalogue::{Catalogue, TableHandle};
use crate::checkpoint::{CheckpointSettings, Checkpoints};
use crate::error::{BuildError, EngineError};
use crate::limits::{MAX_TABLES, MEMORY_WAIT};
use crate::memory::{DiskTier, Memory};
use crate::spill;
use crate::sync::Mutex;

/// Configures and builds an [`Engine`].
#[derive(Default)]
pub struct EngineBuilder {
    tables: Vec<(TableConfig, Vec<Box<dyn Extension>>)>,
    seed: Option<u64>,
    max_bytes: Option<u64>,
    max_bytes_wait: Option<Duration>,
    checkpoints: CheckpointSettings,
    cold: Option<Arc<dyn ColdStore>>,
    loaded: Option<String>,
}

impl Engine {
    /// Creates a builder.
    #[must_use]
    pub fn builder() -> EngineBuilder {
        EngineBuilder::default()
    }
}

impl EngineBuilder {
    /// Writes checkpoints with `save`, which reports its progress and returns what it wrote.
    ///
    /// Checkpoints run one at a time, each on its own low-priority thread. If `save` panics, that checkpoint fails, but
    /// later ones may succeed.
    #[must_use]
    pub fn checkpointer(
        mut self,
        save: impl Fn(Snapshot, &CheckpointProgress) -> Result<SavedCheckpoint, EngineError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.checkpoints.save = Some(Box::new(save));
        self
    }

    /// Writes a checkpoint every `interval`, starting one interval after the engine is built, until the engine is
    /// closed or dropped. If a checkpoint takes longer than the interval, the scheduled times that pass in the meantime
    /// are skipped. A failure is logged and shown by [`checkpoint_status`](crate::Engine::checkpoint_status); it does
    /// not prevent later checkpoints.
    #[must_use]
    pub fn checkpoint_every(mut self, interval: Duration) -> Self {
        self.checkpoints.every = Some(interval);
        self
    }

    /// Writes a checkpoint when the engine is [shut down](crate::Engine::shut_down).
    #[must_use]
    pub fn checkpoint_at_close(mut self, yes: bool) -> Self {
        self.checkpoints.at_close = yes;
        self
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

    /// Makes every random choice depend only on `seed`, the tables, and the order of operations on each table. A
    /// table's own [`seed`](TableConfig::seed) takes precedence. By default, the operating system provides the seed.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Turns [`max_bytes`](Self::max_bytes) into a budget. When the chunks are about to exceed the budget, those that
    /// have not been read recently move to `store`, and sampling reads them from there. Writers wait only while the
    /// disk cannot keep up. The descriptions of items and chunks, a few hundred bytes each, stay in memory and do not
    /// count toward the budget. Chunks under [`MIN_MOVABLE_BYTES`](relive_tensor::MIN_MOVABLE_BYTES) also stay in
    /// memory.
    ///
    /// If the engine is built from a snapshot, it can move only chunks that are in a [ledger of movable
    /// chunks](Ledger::of_movable_chunks).
    #[must_use]
    pub fn cold_store(mut self, store: Arc<dyn ColdStore>) -> Self {
        self.cold = Some(store);
        self
    }

    /// Bounds the memory of all chunks, including chunks in transit from or to clients. Above the bound, writers wait
    /// ([`MemoryGate`](crate::MemoryGate)). Each writer may exceed the bound by the size of one request.
    #[must_use]
    pub fn max_bytes(mut self, max_bytes: u64) -> Self {
        self.max_bytes = Some(max_bytes);
        self
    }

    /// Sets the location of the snapshot from which the engine is [built](Self::build_from).
    /// [`checkpoint_status`](Engine::checkpoint_status) reports it.
    #[must_use]
    pub fn loaded_from(mut self, location: impl Into<String>) -> Self {
        self.loaded = Some(location.into());
        self
    }

    /// Sets how long writers wait for memory before they fail. The default is [`MEMORY_WAIT`].
    #[must_use]
    pub fn max_bytes_wait(mut self, longest_wait: Duration) -> Self {
        self.max_bytes_wait = Some(longest_wait);
        self
    }

    /// Builds the engine.
    ///
    /// # Errors
    /// There are no tables or too many, two tables have the same name, or the configuration of a table is out of range;
    /// the bound is 0 bytes, or a disk tier has no bound; checkpoints are requested without a checkpointer or at too
    /// short an interval; or the system cannot start a thread.
    pub fn build(self) -> Result<Engine, BuildError> {
        let ledger = if self.cold.is_some() { Ledger::of_movable_chunks() } else { Ledger::default() };
        self.assemble(Arc::new(ledger), |config, extensions, rng, memory| {
            Ok(TableHandle::empty(config, extensions, rng, memory)?)
        })
    }

    pub(crate) fn configs(&self) -> impl Iterator<Item = &TableConfig> {
        self.tables.iter().map(|(config, _)| config)
    }

    /// Builds the engine with tables that `make` creates, each with its own random stream.
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
        let engine = started(Inner {
            tables,
            memory,
            seeds: Mutex::new(rng),
            disk_tier: OnceLock::new(),
            changes: ChangeLog::default(),
            capture_turn: Mutex::new(()),
            checkpoints: self.checkpoints.make()?,
            loaded: self.loaded,
        })?;
        if let (Some(store), Some(budget_bytes)) = (self.cold, self.max_bytes) {
            start_disk_tier(&engine, store, budget_bytes)?;
        }
        Ok(engine)
    }
}

/// Returns the random stream of a table: one from the table's own seed, or the engine's next stream. Even a table with
/// a seed consumes one of the engine's streams, so that its seed does not change the streams of the other tables.
pub(crate) fn stream_of(config: &TableConfig, seeds: &mut Xoshiro256PlusPlus) -> Xoshiro256PlusPlus {
    let next = Xoshiro256PlusPlus::from_rng(seeds);
    config.seed.map_or(next, Xoshiro256PlusPlus::seed_from_u64)
}

fn seed_from_system() -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::try_from_rng(&mut SysRng).expect("the operating system gives random bytes")
}

/// Starts the background threads.
fn started(inner: Inner) -> Result<Engine, BuildError> {
    let inner = Arc::new(inner);
    if let Some(clock) = inner.checkpoints.as_ref().and_then(Checkpoints::clock) {
        // The schedule holds a strong reference to the engine only while it starts a checkpoint.
        let weak = Arc::downgrade(&inner);
        let started = clock.start(move || weak.upgrade().map(|inner| begin_due(&Engine::of(inner))));
        started.map_err(|error| BuildError::no_thread("scheduled checkpoints", &error))?;
    }
    Ok(Engine::of(inner))
}

fn start_disk_tier(engine: &Engine, store: Arc<dyn ColdStore>, budget_bytes: u64) -> Result<(), BuildError> {
    let tier = DiskTier::new(store, budget_bytes, Arc::clone(engine.ledger()));
    let _ = engine.inner().disk_tier.set(Arc::clone(&tier));
    for core in engine.catalogue().cores() {
        // The core is new, so its cell is empty.
        let _ = core.shared.disk_tier.set(Arc::clone(&tier));
    }
    let started = spill::start(&tier, budget_bytes, engine.catalogue());
    started.map_err(|error| BuildError::no_thread("moving chunks to disk", &error))
}
