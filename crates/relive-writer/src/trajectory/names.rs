//! Declares the structure of items before the first item is created.

use std::sync::Arc;

use relive_connection::{ErrorKind, Proposal, Result};
use relive_fleet::TableSignature;
use relive_table::ItemStructure;
use relive_tensor::Nest;

use super::known_tables::{KnownTable, NamesCheck};
use super::writer::TrajectoryWriter;
use crate::links::other_names;

impl TrajectoryWriter {
    /// Ensures that items of `table` may have `structure`, whose leaves are their columns in order, for callers that
    /// flatten items themselves. The names must be those that the table has from its signature or its first writer.
    /// Without a signature or an earlier writer, this writer's names become the table's.
    /// [`create_item`](Self::create_item) does this for a nest of columns.
    ///
    /// Returns false if a request to the server is needed first; [`wait_until_ready`](Self::wait_until_ready) waits for its response. A
    /// writer that [does not check names](crate::TrajectoryWriterOptions::check_names) only sends the names to the
    /// table.
    ///
    /// # Errors
    /// `InvalidArgument` if the table has different names; `NotFound` for an unknown table in this process.
    pub fn agree_on_columns<T>(&mut self, table: &str, structure: &Nest<T>) -> Result<bool> {
        let checked = self.tables.check_names(table, structure, &self.backend)?;
        if checked == Some(NamesCheck::Unsent) {
            self.name_columns_with(table, || Some(structure.map(|_| ())));
        }
        Ok(checked.is_some())
    }

    /// Like [`agree_on_columns`](Self::agree_on_columns), but for items of whole steps. `structure` is only called for
    /// the first item and when steps have more columns than before.
    ///
    /// # Errors
    /// The errors of [`agree_on_columns`](Self::agree_on_columns).
    pub fn agree_on_steps(
        &mut self,
        table: &str,
        structure: impl FnOnce(&Self) -> Option<Nest<()>>,
    ) -> Result<bool> {
        let columns = self.recorder().columns().len();
        if self.tables.find(table, &self.backend).is_some_and(|known| known.checked_columns == columns) {
            return Ok(true);
        }
        if let Some(structure) = structure(self)
            && !self.agree_on_columns(table, &structure)?
        {
            return Ok(false);
        }
        if let Some(known) = self.tables.known(table) {
            known.checked_columns = columns;
        }
        Ok(true)
    }

    /// Returns the structure that items of `table` must have, once this writer has received it.
    pub fn agreed_columns(&self, table: &str) -> Option<&Arc<ItemStructure>> {
        self.tables.find(table, &self.backend)?.structure.as_ref()
    }

    /// Returns a number that changes when cached information about tables may be outdated.
    pub(crate) fn tables_version(&self) -> u64 {
        self.backend.tables_version()
    }

    /// Returns the signature of `table`, or `None` if it has to be requested first.
    pub(crate) fn known_signature(&self, table: &str) -> Result<Option<Arc<TableSignature>>> {
        self.backend.known_signature(table)
    }

    /// Requests the signature of `table` if it is not known, and waits for it for at most the client's timeout.
    pub(crate) async fn learn_signature(&self, table: &str) -> Result<Arc<TableSignature>> {
        self.backend.signature(table, self.backend.timeout()).await
    }

    /// Like [`agree_on_columns`](Self::agree_on_columns), but for items that are created before the server has
    /// answered. Such items are held back until then. If the server has different names, none of these items is sent,
    /// and the writer fails.
    pub(crate) fn agree_unless_known(&mut self, table: &Arc<str>, structure: Nest<()>) -> Result<()> {
        let signature = self.backend.known_signature(table)?;
        let kept = match signature.as_ref().and_then(|signature| signature.structure().cloned()) {
            Some(kept) => Some(kept),
            None => match self.backend.agree_at_once(table, &structure) {
                Err(error) if error.kind() == ErrorKind::InvalidArgument => return Ok(()),
                agreed => agreed?,
            },
        };
        match kept {
            Some(kept) => kept.check(table, &structure).map_err(|why| other_names(&why)),
            None => {
                self.link.agree(
                    &self.backend,
                    Proposal { table: Arc::clone(table), structure: Arc::new(structure) },
                );
                Ok(())
            }
        }
    }

    /// Declares the structure of this writer's items in `table`, for callers that flatten items themselves. The leaves
    /// of `structure` are the columns in order. [`create_item`](Self::create_item) does this for a nest of columns.
    ///
    /// Only the first call for a table has an effect, and only if no other writer of this client has declared the
    /// structure. It never fails and does not wait: the table keeps its signature or an earlier proposal. Items that
    /// are created afterwards wait for the server's answer, for at most one second.
    pub fn name_columns(&mut self, table: &str, structure: &Nest<()>) {
        self.name_columns_with(table, || Some(structure.clone()));
    }

    /// Returns whether [`name_columns`](Self::name_columns) has already been called for `table`.
    pub fn has_named_columns(&self, table: &str) -> bool {
        let known = || self.tables.find(table, &self.backend);
        self.tables.has_named(table, &self.backend) || known().is_some_and(KnownTable::is_unsupported)
    }

    /// Like [`name_columns`](Self::name_columns), but with a structure that is computed only if it is needed.
    pub(crate) fn name_columns_with(&mut self, table: &str, structure: impl FnOnce() -> Option<Nest<()>>) {
        if self.has_named_columns(table) {
            return;
        }
        self.tables.note_named(table, &self.backend);
        if self.backend.proposals().contains(table) || self.backend.has_signature(table) {
            return;
        }
        let proposal = structure().and_then(|structure| self.backend.proposals().begin(table, &structure));
        if let Some(proposal) = proposal {
            self.link.propose(&self.backend, proposal);
        }
    }
}
