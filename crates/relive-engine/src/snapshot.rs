//! All tables at one moment, and where their state is kept.

use std::fmt;
use std::sync::Arc;

use relive_table::{CheckpointProgress, SavedCheckpoint, Snapshot, TableSnapshot};

use crate::sync::Mutex;
use crate::{Engine, EngineError};

/// Writes snapshots to where they last, one at a time.
pub(crate) struct Checkpointing {
    save: Box<Save>,
    /// Held while one is written.
    turn: Mutex<()>,
}

pub(crate) type Save =
    dyn Fn(Snapshot, &CheckpointProgress) -> Result<SavedCheckpoint, EngineError> + Send + Sync;

impl Checkpointing {
    pub(crate) fn new(save: Box<Save>) -> Self {
        Self { save, turn: Mutex::new(()) }
    }
}

impl fmt::Debug for Checkpointing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Checkpointing")
    }
}

impl Engine {
    /// Every table at one and the same moment, items in the order of their insertion.
    ///
    /// All tables are locked, in the order in which they were given, while references to their items are collected: some
    /// ten nanoseconds for each item. What inserts and sample requests wait for is no part of a snapshot, nor is what an
    /// extension has asked for in another table and is not done yet.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let mut tables = self.collect();
        tables.iter_mut().for_each(TableSnapshot::sort);
        Snapshot { tables, ledger: Arc::clone(self.ledger()) }
    }

    fn collect(&self) -> Vec<TableSnapshot> {
        // Nobody else holds two of these locks, so that no order of theirs can lead to a deadlock.
        let locked: Vec<_> = self.tables().iter().map(|table| table.shared.state.lock()).collect();
        locked.iter().map(|state| state.table.snapshot()).collect()
    }

    /// Has the checkpointer write a snapshot, and says what it wrote. Takes as long as writing takes: call it
    /// where blocking harms nobody. A second call waits until the first is done. Works on a closed engine, too.
    ///
    /// # Errors
    /// `InvalidArgument` without a checkpointer; what the checkpointer says.
    pub fn checkpoint(&self) -> Result<SavedCheckpoint, EngineError> {
        let Some(checkpointing) = self.checkpointing() else {
            let reason = "no checkpointer is configured for this server: it keeps its tables in memory only";
            return Err(EngineError::CheckpointRefused { reason: reason.to_owned() });
        };
        let _turn = checkpointing.turn.lock();
        (checkpointing.save)(self.snapshot(), &CheckpointProgress::default())
    }
}
