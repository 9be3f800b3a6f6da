//! A set of tables.

use std::sync::{Arc, OnceLock};

use rand_xoshiro::Xoshiro256PlusPlus;
use relive_tensor::Ledger;

use super::change_log::ChangeLog;
use crate::catalogue::{Catalogue, TableHandle};
use crate::checkpoint::Checkpoints;
use crate::error::EngineError;
use crate::memory::{DiskTier, Memory};
use crate::sync::Mutex;

/// The tables of a server, and the ledger of its chunks. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

/// The data that the clones of an engine share.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) tables: Arc<Catalogue>,
    pub(super) memory: Arc<Memory>,
    /// Random streams for future tables.
    pub(super) seeds: Mutex<Xoshiro256PlusPlus>,
    pub(super) disk_tier: OnceLock<Arc<DiskTier>>,
    pub(super) changes: ChangeLog,
    /// A lock that is held during a capture of the tables, because only one capture may run at a time.
    pub(super) capture_turn: Mutex<()>,
    pub(super) checkpoints: Option<Checkpoints>,
    /// The location of the snapshot that the engine was built from.
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
    /// No table has this name; the error lists the existing ones.
    pub fn table(&self, name: &str) -> Result<TableHandle, EngineError> {
        self.inner.tables.get(name).ok_or_else(|| self.inner.tables.unknown(name))
    }

    /// Returns the current tables, in the order in which they were added. A caller that locks several tables must lock
    /// them in this order.
    #[must_use]
    pub fn tables(&self) -> Arc<[TableHandle]> {
        self.inner.tables.all()
    }

    /// Returns the number of times that a table has been added or dropped. Tables that are read afterwards are at least
    /// as new, so a client that keeps this number with them never takes an old list for a new one.
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

    /// Returns the ledger that counts the live chunks.
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

    /// Returns the bound on memory.
    pub(super) fn bound(&self) -> &Arc<Memory> {
        &self.inner.memory
    }

    /// Closes every table; see [`TableHandle::close`]. Writers that are waiting for memory proceed and then fail
    /// because the tables are closed. No more checkpoints are scheduled; [`shut_down`](Self::shut_down) writes a last
    /// one.
    pub fn close(&self) {
        self.inner.tables.close().iter().for_each(TableHandle::close);
        self.bound().close();
        if let Some(clock) = self.checkpoints().and_then(Checkpoints::clock) {
            clock.stop();
        }
    }
}
