//! Saying what items look like, before the first of them.

use std::sync::Arc;

use relive_connection::{ErrorKind, Proposal, Result};
use relive_table::ItemStructure;
use relive_tensor::Nest;

use super::known_tables::{Checked, KnownTable};
use super::writer::TrajectoryWriter;
use crate::links::other_names;

impl TrajectoryWriter {
    /// Makes sure that items of `table` may look like `structure`, whose leaves are their columns in order, for
    /// callers that flatten them by themselves: its signature or its first writer has given its columns the same
    /// names. The first writer is this one, if there is no signature and nobody has said anything.
    /// [`create_item`](Self::create_item) does it for a nest of columns.
    ///
    /// False if the server has to be asked first, for which [`make_way`](Self::make_way) waits. A writer that
    /// [does not check names](crate::TrajectoryWriterOptions::check_names) only tells the table.
    ///
    /// # Errors
    /// `InvalidArgument` if the table keeps other names; `NotFound` for an unknown table of this process.
    pub fn agree_on_columns<T>(&mut self, table: &str, structure: &Nest<T>) -> Result<bool> {
        let checked = self.tables.check_names(table, structure, &self.backend)?;
        if checked == Some(Checked::ToBeTold) {
            self.name_columns_with(table, || Some(structure.map(|_| ())));
        }
        Ok(checked.is_some())
    }

    /// [`agree_on_columns`](Self::agree_on_columns) for items of whole steps, whose structure is only asked for at
    /// first, and when steps have got more columns.
    ///
    /// # Errors
    /// As [`agree_on_columns`](Self::agree_on_columns).
    pub fn agree_on_steps(
        &mut self,
        table: &str,
        structure: impl FnOnce(&Self) -> Option<Nest<()>>,
    ) -> Result<bool> {
        let columns = self.recorder().columns().len();
        if self.tables.find(table).is_some_and(|known| known.checked_columns == columns) {
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

    /// What items of `table` must look like, once that is known to this writer.
    pub fn agreed_columns(&self, table: &str) -> Option<&Arc<ItemStructure>> {
        self.tables.find(table)?.structure.as_ref()
    }

    /// [`agree_on_columns`](Self::agree_on_columns) for items that are made before the server has answered. They are
    /// held back until it has; if it keeps other names, none of them is sent, and the writer fails.
    pub(crate) fn agree_meanwhile(&mut self, table: &Arc<str>, structure: Nest<()>) -> Result<()> {
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

    /// Says what this writer's items of `table` look like, for callers that flatten them by themselves; the leaves of
    /// `structure` are the columns in order. [`create_item`](Self::create_item) does it for a nest of columns.
    ///
    /// Only the first call for a table does something, and only if no other writer of this client has said it. It never
    /// fails and does not wait: the table's signature, or another structure that was proposed before, simply stays.
    /// Items that are made afterwards wait for the server's answer, for a second at most.
    pub fn name_columns(&mut self, table: &str, structure: &Nest<()>) {
        self.name_columns_with(table, || Some(structure.clone()));
    }

    /// Whether [`name_columns`](Self::name_columns) has nothing to do for `table` any more.
    pub fn has_named_columns(&self, table: &str) -> bool {
        let is_unkept = || self.tables.find(table).is_some_and(KnownTable::is_unkept);
        self.named.0.iter().any(|named| **named == *table) || is_unkept()
    }

    /// [`name_columns`](Self::name_columns) with a structure that is found out when it is needed, if it can be.
    pub(crate) fn name_columns_with(&mut self, table: &str, structure: impl FnOnce() -> Option<Nest<()>>) {
        if self.has_named_columns(table) {
            return;
        }
        self.named.0.push(Arc::from(table));
        if self.backend.proposals().knows(table) || self.backend.has_signature(table) {
            return;
        }
        let proposal = structure().and_then(|structure| self.backend.proposals().begin(table, &structure));
        if let Some(proposal) = proposal {
            self.link.propose(&self.backend, proposal);
        }
    }
}
