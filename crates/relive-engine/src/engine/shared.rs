//! A set of tables under one roof.

use std::sync::{Arc, OnceLock};

use rand_xoshiro::Xoshiro256PlusPlus;
use relive_tensor::Ledger;

use super::change_log::ChangeLog;
use crate::catalogue::{Catalogue, TableHandle};
use crate::checkpoint::Checkpoints;
use crate::error::EngineError;
use crate::memory::{DiskTier, Memory};
use crate::sync::Mutex;

/// The tables of a server, and the account of its chunks. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

/// What the clones of an engine share.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) tables: Arc<Catalogue>,
    pub(super) memory: Arc<Memory>,
    /// Random streams for tables to come.
    pub(super) seeds: Mutex<Xoshiro256PlusPlus>,
    pub(super) disk_tier: OnceLock<Arc<DiskTier>>,
    pub(super) changes: ChangeLog,
    /// Held while the tables are captured, which one caller does at a time.
    pub(super) capture_turn: Mutex<()>,
    pub(super) checkpoints: Option<Checkpoints>,
    /// Where the snapshot came from that this was made of.
    pub(super) loaded: Option<String>,
}

impl Engine {
    pub(super) fn of(inner: Arc<Inner>) -> Self {
        Self { inner }
    }

    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    /// The table `name`.
    ///
    /// # Errors
    /// There is none of this name; the error lists those there are.
    pub fn table(&self, name: &str) -> Result<TableHandle, EngineError> {
        self.inner.tables.get(name).ok_or_else(|| self.inner.tables.unknown(name))
    }

    /// Every table that there is at this moment, in the order in which they came: whoever locks several takes them in
    /// it.
    #[must_use]
    pub fn tables(&self) -> Arc<[TableHandle]> {
        self.inner.tables.all()
    }

    /// Counts how often tables were added and dropped.
    #[must_use]
    pub fn tables_version(&self) -> u64 {
        self.inner.tables.version()
    }

    pub(super) fn catalogue(&self) -> &Arc<Catalogue> {
        &self.inner.tables
    }

    pub(super) fn seeds(&self) -> &Mutex<Xoshiro256PlusPlus> {
        &self.inner.seeds
    }

    pub(super) fn disk_tier(&self) -> Option<&Arc<DiskTier>> {
        self.inner.disk_tier.get()
    }

    pub(super) fn change_log(&self) -> &ChangeLog {
        &self.inner.changes
    }

    /// The account of every live chunk made with it.
    #[must_use]
    pub fn ledger(&self) -> &Arc<Ledger> {
        self.bound().ledger()
    }

    pub(super) fn capture_turn(&self) -> &Mutex<()> {
        &self.inner.capture_turn
    }

    pub(super) fn checkpoints(&self) -> Option<&Checkpoints> {
        self.inner.checkpoints.as_ref()
    }

    pub(super) fn loaded(&self) -> Option<&str> {
        self.inner.loaded.as_deref()
    }

    /// The bound on memory.
    pub(super) fn bound(&self) -> &Arc<Memory> {
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
