//! What the items of tables look like, as their writers say.

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

/// What a client's writers have proposed, by table.
#[derive(Debug, Default)]
pub struct Proposals {
    made: Mutex<HashMap<Arc<str>, Arc<Nest<()>>>>,
    /// What the tables keep, as far as writers that keep to it have asked.
    agreed: Mutex<HashMap<Arc<str>, Arc<ItemStructure>>>,
}

/// What the items of a table look like, on its way to the server.
#[derive(Debug, Clone)]
pub struct Proposal {
    /// The table.
    pub table: Arc<str>,
    /// The structure; its leaves are the columns in order.
    pub structure: Arc<Nest<()>>,
}

impl Connection {
    /// Proposes `structure` as what the items of `table` look like. Whether it is the structure that the table keeps:
    /// its signature's, or else the first that was proposed.
    ///
    /// # Errors
    /// `InvalidArgument` for a structure without columns, or beyond the limits; `NotFound` for an unknown table,
    /// `Unimplemented` from a dm-reverb server, `Timeout` when no server answers within `timeout`.
    pub async fn name_columns(&self, table: &str, structure: &Nest<()>, timeout: Duration) -> Result<bool> {
        Ok(self.ask_for_names(table, structure, false, timeout).await?.kept)
    }

    /// Sends `structure` to the server; `is_checked` says whether the writer keeps to the answer.
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
            let (mut stub, request) = (self.own_stub(), request.clone());
            // The message is large where it lies.
            Box::pin(async move { stub.name_columns(request).await })
        });
        answer.await
    }

    /// What the items of `table` look like, if somebody has said it. None from a dm-reverb server.
    ///
    /// # Errors
    /// `NotFound` for an unknown table, `Timeout` when no server answers within `timeout`.
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

    /// What all items of `table` look like, for a writer that keeps to the answer: `structure`, if nobody has said
    /// anything else. None of a server that keeps no structures: dm-reverb's.
    ///
    /// # Errors
    /// As [`name_columns`](Self::name_columns); `Protocol` for an answer that makes no sense.
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

    /// Makes a proposal of a writer. What becomes of it is only logged.
    pub async fn propose(&self, proposal: &Proposal, timeout: Duration) {
        let Proposal { table, structure } = proposal;
        proposal.log(self.name_columns(table, structure, timeout).await);
    }
}

impl Proposal {
    /// Logs what has become of the proposal: whether its table keeps it.
    pub fn log(&self, kept: Result<bool>) {
        let table = &self.table;
        match kept {
            Ok(true) => {}
            Ok(false) => tracing::debug!(%table, "the table knows its columns by other names"),
            Err(error) => tracing::debug!(%table, %error, "the columns of a table were not named"),
        }
    }
}

impl Proposals {
    /// Whether there was a proposal for `table`.
    pub fn knows(&self, table: &str) -> bool {
        self.made.lock().contains_key(table)
    }

    /// Takes note of a proposal; none if there was one for the same table before.
    pub fn begin(&self, table: &str, structure: &Nest<()>) -> Option<Proposal> {
        let mut made = self.made.lock();
        if made.contains_key(table) {
            return None;
        }
        let proposal = Proposal { table: Arc::from(table), structure: Arc::new(structure.clone()) };
        made.insert(Arc::clone(&proposal.table), Arc::clone(&proposal.structure));
        Some(proposal)
    }

    /// What `table` keeps, if it has been asked.
    pub fn agreed(&self, table: &str) -> Option<Arc<ItemStructure>> {
        self.agreed.lock().get(table).cloned()
    }

    /// Records what `table` keeps. The client repeats it to a server that has restarted.
    pub fn note_agreed(&self, table: &str, agreed: Option<&Arc<ItemStructure>>) {
        let Some(agreed) = agreed else { return };
        self.agreed.lock().insert(Arc::from(table), Arc::clone(agreed));
        if !agreed.is_signature {
            self.made.lock().insert(Arc::from(table), Arc::clone(&agreed.names));
        }
    }

    /// The table is gone, and what was said of it.
    pub fn forget(&self, table: &str) {
        self.agreed.lock().remove(table);
        self.made.lock().remove(table);
    }

    /// All proposals that were made, to be made again: the server may have begun anew.
    pub fn all(&self) -> Vec<Proposal> {
        let made = self.made.lock();
        let proposal = |(table, structure): (&Arc<str>, &Arc<Nest<()>>)| Proposal {
            table: Arc::clone(table),
            structure: Arc::clone(structure),
        };
        made.iter().map(proposal).collect()
    }
}
