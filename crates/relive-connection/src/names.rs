//! The structures that writers propose for tables' items.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use relive_table::ItemStructure;
use relive_tensor::Nest;
use relive_wire::structure;
use relive_wire::v1::{NameColumnsRequest, NameColumnsResponse};

use crate::connection::Connection;
use crate::{Error, ErrorKind, Result};

/// The proposals of a client's writers, by table.
#[derive(Debug, Default)]
pub struct Proposals {
    by_table: Mutex<HashMap<Arc<str>, Arc<Nest<()>>>>,
    /// The structures that tables keep, if writers that check names have requested them.
    agreed: Mutex<HashMap<Arc<str>, Arc<ItemStructure>>>,
}

/// A proposed structure of a table's items.
#[derive(Debug, Clone)]
pub struct Proposal {
    /// The table.
    pub table: Arc<str>,
    /// The structure; its leaves are the columns in order.
    pub structure: Arc<Nest<()>>,
}

impl Connection {
    /// Proposes `structure` for the items of `table`. Returns whether the table keeps this structure. A table keeps the
    /// structure of its signature or, without a signature, the first one that was proposed.
    ///
    /// # Errors
    /// `InvalidArgument` for a structure that has no columns or exceeds the limits; `NotFound` for an unknown table;
    /// `Unimplemented` from a dm-reverb server; `Timeout` if no server answers within `timeout`.
    pub async fn name_columns(&self, table: &str, structure: &Nest<()>, timeout: Duration) -> Result<bool> {
        Ok(self.ask_for_names(table, structure, false, timeout).await?.kept)
    }

    /// Sends `structure` to the server. `is_checked` states whether the writer adopts the structure in the response.
    async fn ask_for_names(
        &self,
        table: &str,
        structure: &Nest<()>,
        is_checked: bool,
        timeout: Duration,
    ) -> Result<NameColumnsResponse> {
        let structure = Some(structure::to_wire(structure));
        let request = NameColumnsRequest { table: table.to_owned(), structure, is_checked };
        let answer = self.call("name_columns", timeout, || {
            let (mut stub, request) = (self.replay_stub(), request.clone());
            // The future is boxed because the message is large.
            Box::pin(async move { stub.name_columns(request).await })
        });
        answer.await
    }

    /// Returns the structure of the items of `table`, if it is known. Returns `None` for a dm-reverb server.
    ///
    /// # Errors
    /// `NotFound` for an unknown table; `Timeout` if no server answers within `timeout`.
    pub async fn column_names(&self, table: &str, timeout: Duration) -> Result<Option<Nest<()>>> {
        let status = match self.status(timeout).await {
            Err(error) if error.kind() == ErrorKind::Unimplemented => return Ok(None),
            status => status?,
        };
        match status.table(table) {
            Some(table) => Ok(table.columns.as_deref().cloned()),
            None => {
                let text = format!("column_names: Priority table {table} was not found");
                Err(Error::new(ErrorKind::NotFound, text))
            }
        }
    }

    /// Returns the structure of all items of `table`, for a writer that adopts it: `structure`, unless the table
    /// already had another one. Returns `None` for a dm-reverb server, which stores no structures.
    ///
    /// # Errors
    /// The errors of [`name_columns`](Self::name_columns), and `Protocol` for an invalid response.
    pub async fn agree_on_columns(
        &self,
        table: &str,
        structure: &Nest<()>,
        timeout: Duration,
    ) -> Result<Option<Arc<ItemStructure>>> {
        let answer = match self.ask_for_names(table, structure, true, timeout).await {
            Err(error) if error.kind() == ErrorKind::Unimplemented => return Ok(None),
            answer => answer?,
        };
        structure::items_of(&answer.structure.unwrap_or_default())
            .map_err(|error| Error::with_source(ErrorKind::Protocol, format!("name_columns: {error}"), error))
    }

    /// Sends a proposal from a writer. The result is only logged.
    pub async fn propose(&self, proposal: &Proposal, timeout: Duration) {
        let Proposal { table, structure } = proposal;
        proposal.log(self.name_columns(table, structure, timeout).await);
    }
}

impl Proposal {
    /// Logs whether the table keeps the proposal.
    pub fn log(&self, kept: Result<bool>) {
        let table = &self.table;
        match kept {
            Ok(true) => {}
            Ok(false) => tracing::debug!(%table, "the table has different names for its columns"),
            Err(error) => tracing::debug!(%table, %error, "could not name the columns of a table"),
        }
    }
}

impl Proposals {
    /// Returns whether a structure has been proposed for `table`.
    pub fn contains(&self, table: &str) -> bool {
        self.by_table.lock().contains_key(table)
    }

    /// Records a proposal. Returns `None` if there already was one for this table.
    pub fn begin(&self, table: &str, structure: &Nest<()>) -> Option<Proposal> {
        let mut by_table = self.by_table.lock();
        if by_table.contains_key(table) {
            return None;
        }
        let proposal = Proposal { table: Arc::from(table), structure: Arc::new(structure.clone()) };
        by_table.insert(Arc::clone(&proposal.table), Arc::clone(&proposal.structure));
        Some(proposal)
    }

    /// Returns the structure that `table` keeps, if it has been requested.
    pub fn agreed(&self, table: &str) -> Option<Arc<ItemStructure>> {
        self.agreed.lock().get(table).cloned()
    }

    /// Records the structure that `table` keeps. The client proposes it again to a server that has restarted.
    pub fn note_agreed(&self, table: &str, agreed: Option<&Arc<ItemStructure>>) {
        let Some(agreed) = agreed else { return };
        self.agreed.lock().insert(Arc::from(table), Arc::clone(agreed));
        if !agreed.is_signature {
            self.by_table.lock().insert(Arc::from(table), Arc::clone(&agreed.names));
        }
    }

    /// Removes the records of a table that was dropped.
    pub fn forget(&self, table: &str) {
        self.agreed.lock().remove(table);
        self.by_table.lock().remove(table);
    }

    /// Returns all proposals, so that they can be repeated to a server that may have restarted.
    pub fn all(&self) -> Vec<Proposal> {
        let by_table = self.by_table.lock();
        let proposal = |(table, structure): (&Arc<str>, &Arc<Nest<()>>)| Proposal {
            table: Arc::clone(table),
            structure: Arc::clone(structure),
        };
        by_table.iter().map(proposal).collect()
    }
}
