//! Saying what items look like, before the first of them.

use std::sync::Arc;
use std::time::Duration;

use relive_tensor::Nest;

use super::trajectory::TrajectoryWriter;

/// How long the first items of a table wait for their names to arrive: far longer than a server takes, and soon over if it
/// does not answer.
pub(super) const MAX_HOLD: Duration = Duration::from_secs(1);

/// The tables whose items this writer has described. Few, as with the tables that it knows.
#[derive(Debug, Default)]
pub(super) struct NamedTables(Vec<Arc<str>>);

impl TrajectoryWriter {
    /// Says what this writer's items of `table` look like, for callers that flatten them by themselves; the leaves of
    /// `structure` are the columns in order. [`create_item`](Self::create_item) does it for a nest of columns.
    ///
    /// Only the first call for a table does something, and only if no other writer of this client has said it. It never
    /// fails and does not wait: the table's signature, or another structure that was proposed before, simply stays. Items
    /// that are made afterwards wait for the server's answer, for a second at most.
    pub fn name_columns(&mut self, table: &str, structure: &Nest<()>) {
        self.name_columns_with(table, || Some(structure.clone()));
    }

    /// Whether [`name_columns`](Self::name_columns) has nothing to do for `table` any more.
    pub fn has_named_columns(&self, table: &str) -> bool {
        self.named.0.iter().any(|named| **named == *table)
    }

    /// [`name_columns`](Self::name_columns) with a structure that is found out when it is needed, if it can be.
    pub(crate) fn name_columns_with(&mut self, table: &str, structure: impl FnOnce() -> Option<Nest<()>>) {
        if self.has_named_columns(table) {
            return;
        }
        self.named.0.push(Arc::from(table));
        if self.client.proposals().knows(table) || self.client.has_signature(table) {
            return;
        }
        let proposal = structure().and_then(|structure| self.client.proposals().begin(table, &structure));
        if let Some(proposal) = proposal {
            self.link.propose(&self.client, proposal);
        }
    }
}
