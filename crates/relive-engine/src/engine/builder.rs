//! Making an engine out of settings and tables.

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

/// Collects the tables of an [`Engine`].
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
    /// Begins an engine.
    #[must_use]
    pub fn builder() -> EngineBuilder {
        EngineBuilder::default()
    }
}

impl EngineBuilder {
    /// Has `save` write the checkpoints; it says what it wrote, and counts how far it is.
    ///
    /// It is called by one thread at a time, one of its own for each checkpoint, which has a low priority. If it
    /// panics, that checkpoint fails and the next one may work.
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

    /// Writes a checkpoint every so often, from one such time after the engine was made, until it is closed or dropped.
    /// One that takes longer than that is not followed at once by the next: those that were missed are left out. A
    /// failure is logged, told by [`checkpoint_status`](crate::Engine::checkpoint_status), and keeps no later one from
    /// being written.
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

    /// Makes every random choice follow from `seed`, the tables, and the order of operations on each; a table's own
    /// [`seed`](TableConfig::seed) comes first. Otherwise the operating system gives the seed.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Makes [`max_bytes`](Self::max_bytes) a budget: shortly before the chunks take so much memory, those that were
    /// not read lately move to `store`, and are read from there when they are sampled. Writers wait only while the disk
    /// does not keep up. Descriptions of items and chunks, some hundred bytes each, stay in memory and do not count,
    /// nor do chunks under [`MIN_MOVABLE_BYTES`](relive_tensor::MIN_MOVABLE_BYTES).
    ///
    /// An engine that is made of a snapshot can move only those chunks of it that are in a
    /// [ledger of movable chunks](Ledger::of_movable_chunks).
    #[must_use]
    pub fn cold_store(mut self, store: Arc<dyn ColdStore>) -> Self {
        self.cold = Some(store);
        self
    }

    /// Bounds what the chunks of all tables, and those on their way to and from them, take in memory. While they take
    /// more, writers wait ([`MemoryGate`](crate::MemoryGate)); each may go beyond the bound by what it brings at once.
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
    /// Of tables: there are none or too many, two have one name, or a configuration is out of range. Of the whole: a
    /// bound of no bytes, a disk tier without a bound, checkpoints with nothing to write them or too often. Or the
    /// system gives no thread.
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

/// The random stream of a table: its own, or else the next of the engine's. A table with a seed takes one as well, so
/// that it changes nothing about the others.
pub(crate) fn stream_of(config: &TableConfig, seeds: &mut Xoshiro256PlusPlus) -> Xoshiro256PlusPlus {
    let next = Xoshiro256PlusPlus::from_rng(seeds);
    config.seed.map_or(next, Xoshiro256PlusPlus::seed_from_u64)
}

fn seed_from_system() -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::try_from_rng(&mut SysRng).expect("the operating system gives random bytes")
}

/// Starts what works in the background.
fn started(inner: Inner) -> Result<Engine, BuildError> {
    let inner = Arc::new(inner);
    if let Some(clock) = inner.checkpoints.as_ref().and_then(Checkpoints::clock) {
        // The clock knows the engine only while it has something to ask of it.
        let weak = Arc::downgrade(&inner);
        let begun = clock.start(move || weak.upgrade().map(|inner| begin_due(&Engine::of(inner))));
        begun.map_err(|error| BuildError::no_thread("checkpoints by the clock", &error))?;
    }
    Ok(Engine::of(inner))
}

fn start_disk_tier(engine: &Engine, store: Arc<dyn ColdStore>, budget_bytes: u64) -> Result<(), BuildError> {
    let tier = DiskTier::new(store, budget_bytes, Arc::clone(engine.ledger()));
    let _ = engine.inner().disk_tier.set(Arc::clone(&tier));
    for core in engine.catalogue().cores() {
        // Each core is fresh, so that its cell is empty.
        let _ = core.shared.disk_tier.set(Arc::clone(&tier));
    }
    let begun = spill::start(&tier, budget_bytes, engine.catalogue());
    begun.map_err(|error| BuildError::no_thread("moving chunks to disk", &error))
}
