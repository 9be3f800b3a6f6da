//! The log of changes made by operators.

use std::collections::VecDeque;

use relive_table::LoggedChange;

use crate::limits::MAX_LISTED_CHANGES;
use crate::sync::Mutex;

/// The latest changes, oldest first.
#[derive(Debug, Default)]
pub(super) struct ChangeLog {
    changes: Mutex<VecDeque<LoggedChange>>,
}

impl ChangeLog {
    pub(super) fn add(&self, change: LoggedChange) {
        let LoggedChange { who, table, what, old, new, .. } = &change;
        tracing::info!(%who, %table, %what, %old, %new, "changed while in use");
        let mut changes = self.changes.lock();
        if changes.len() >= MAX_LISTED_CHANGES {
            changes.pop_front();
        }
        changes.push_back(change);
    }

    pub(super) fn list(&self) -> Vec<LoggedChange> {
        self.changes.lock().iter().cloned().collect()
    }
}
