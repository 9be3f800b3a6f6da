//! What the items of tables look like, as their writers say.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use relive_table::ItemStructure;
use relive_tensor::Nest;
use relive_wire::structure;
use relive_wire::v1::{NameColumnsRequest, NameColumnsResponse};

use super::{Client, Connection, Remote};
use crate::{Error, ErrorKind, Result};

/// How long a proposal of a writer waits for its server. Streams that find their server again repeat it.
const PROPOSAL_TIMEOUT: Duration = Duration::from_secs(60);

/// What this client's writers have proposed, by table.
#[derive(Debug, Default)]
pub(crate) struct Proposals {
    made: Mutex<HashMap<Arc<str>, Arc<Nest<()>>>>,
    /// What the tables keep, as far as writers that keep to it have asked.
    agreed: Mutex<HashMap<Arc<str>, Arc<ItemStructure>>>,
}

/// What the items of a table look like, on its way to the server.
#[derive(Debug, Clone)]
pub(crate) struct Proposal {
    pub(crate) table: Arc<str>,
    pub(crate) structure: Arc<Nest<()>>,
}

impl Client {
    /// Proposes `structure` as what the items of `table` look like; its leaves are their columns in the flattening order.
    /// Tells whether it is the structure that the table keeps: its signature's, or else the first that was proposed.
    ///
    /// Writers do this by themselves.
    ///
    /// # Errors
    /// `InvalidArgument` for a structure without columns, or with more than 4,096 of them, 32 levels or 64 KiB of names;
    /// `NotFound` for an unknown table, `Unimplemented` from a dm-reverb server, `Timeout` after the client's time.
    pub async fn name_columns(&self, table: &str, structure: &Nest<()>) -> Result<bool> {
        let remote = match self.connection() {
            Connection::Local(local) => return local.name_columns(table, structure),
            Connection::Many(many) => return many.name_columns(table, structure, self.timeout()).await,
            Connection::Remote(remote) => remote,
        };
        Ok(self.ask_for_names(remote, table, structure, false).await?.kept)
    }

    /// Sends `structure` to one server; `is_checked` says whether the writer keeps to the answer.
    async fn ask_for_names(
        &self,
        remote: &Remote,
        table: &str,
        structure: &Nest<()>,
        is_checked: bool,
    ) -> Result<NameColumnsResponse> {
        let structure = Some(structure::to_wire(structure));
        let request = NameColumnsRequest { table: table.to_owned(), structure, is_checked };
        let answer = self.call("name_columns", || {
            let (mut stub, request) = (remote.own_stub(), request.clone());
            // The message is large where it lies.
            Box::pin(async move { stub.name_columns(request).await })
        });
        answer.await
    }

    /// What the items of `table` look like: the structure that puts the columns of its samples
    /// ([`Sample::columns`](crate::Sample::columns)) under their names again, by [`Nest::unflatten`]. None if nobody has said
    /// it, and from a dm-reverb server.
    ///
    /// An item that was written with another structure than the first may have other columns.
    ///
    /// ```
    /// # use relive_client::{Client, Nest, Tensor};
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = relive_engine::Engine::builder().table(relive_table::TableConfig::new("replay")).build()?;
    /// # let client = Client::in_process(engine);
    /// let step = Nest::dict([("observation", Tensor::scalar(1.0_f32)), ("action", Tensor::scalar(3_i32))]);
    /// client.insert(&step, &[("replay", 1.0)]).await?;
    /// let sample = client.sample("replay", 1).await?.remove(0);
    /// let names = client.column_names("replay").await?.expect("the writer said what its items look like");
    /// let Nest::Dict(data) = names.unflatten(sample.columns()?)? else { unreachable!() };
    /// assert_eq!(data["action"], Nest::Leaf(Tensor::from_slice(&[3_i32], [1])?));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NotFound` for an unknown table, `Timeout` after the client's time.
    pub async fn column_names(&self, table: &str) -> Result<Option<Nest<()>>> {
        if let Connection::Local(local) = self.connection() {
            return Ok(local.table("column_names", table)?.columns().as_deref().cloned());
        }
        if let Connection::Many(many) = self.connection() {
            return many.column_names(table, self.timeout()).await;
        }
        let status = match self.status().await {
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

    /// What all items of `table` look like, for a writer who keeps to the answer: `structure`, if nobody has said anything else. None
    /// of a server that keeps no structures: dm-reverb's.
    pub(crate) async fn agree_on_columns(
        &self,
        table: &str,
        structure: &Nest<()>,
    ) -> Result<Option<Arc<ItemStructure>>> {
        if let Some(agreed) = self.agree_at_once(table, structure)? {
            return Ok(Some(agreed));
        }
        let remote = match self.connection() {
            Connection::Local(_) => return Ok(None),
            Connection::Many(many) => {
                let agreed = many.agree_on_columns(table, structure, self.timeout()).await?;
                self.proposals().note_agreed(table, agreed.as_ref());
                return Ok(agreed);
            }
            Connection::Remote(remote) => remote,
        };
        let answer = match self.ask_for_names(remote, table, structure, true).await {
            Err(error) if error.kind() == ErrorKind::Unimplemented => return Ok(None),
            answer => answer?,
        };
        let agreed = structure::items_of(&answer.structure.unwrap_or_default());
        let agreed = agreed.map_err(|error| {
            Error::with_source(ErrorKind::Protocol, format!("name_columns: {error}"), error)
        })?;
        self.proposals().note_agreed(table, agreed.as_ref());
        Ok(agreed)
    }

    /// [`agree_on_columns`](Self::agree_on_columns), if no server has to be asked for it.
    pub(crate) fn agree_at_once(
        &self,
        table: &str,
        structure: &Nest<()>,
    ) -> Result<Option<Arc<ItemStructure>>> {
        match self.connection() {
            Connection::Local(local) => {
                let agreed = local.table("create_item", table)?.agree_on_columns(structure.clone());
                agreed.map(Some).map_err(|error| Error::from_engine("create_item", error))
            }
            Connection::Remote(_) | Connection::Many(_) => Ok(self.proposals().agreed(table)),
        }
    }

    pub(crate) fn proposals(&self) -> &Proposals {
        &self.shared.proposals
    }

    /// Makes a proposal; what comes of it matters to nobody who writes.
    pub(crate) async fn propose(&self, proposal: &Proposal) {
        self.propose_within(proposal, PROPOSAL_TIMEOUT.min(self.timeout())).await;
    }

    /// [`propose`](Self::propose) with a time of its own.
    pub(crate) async fn propose_within(&self, proposal: &Proposal, timeout: Duration) {
        let Proposal { table, structure } = proposal;
        match self.with_timeout(timeout).name_columns(table, structure).await {
            Ok(true) => {}
            Ok(false) => tracing::debug!(%table, "the table knows its columns by other names"),
            Err(error) => tracing::debug!(%table, %error, "the columns of a table were not named"),
        }
    }
}

impl Proposals {
    /// Whether there was a proposal for `table`.
    pub(crate) fn knows(&self, table: &str) -> bool {
        self.made.lock().contains_key(table)
    }

    /// Takes note of a proposal; none if there was one for the same table before.
    pub(crate) fn begin(&self, table: &str, structure: &Nest<()>) -> Option<Proposal> {
        let mut made = self.made.lock();
        if made.contains_key(table) {
            return None;
        }
        let proposal = Proposal { table: Arc::from(table), structure: Arc::new(structure.clone()) };
        made.insert(Arc::clone(&proposal.table), Arc::clone(&proposal.structure));
        Some(proposal)
    }

    /// What `table` keeps, if it has been asked.
    pub(crate) fn agreed(&self, table: &str) -> Option<Arc<ItemStructure>> {
        self.agreed.lock().get(table).cloned()
    }

    /// Records what `table` keeps. The client repeats it to a server that has restarted.
    fn note_agreed(&self, table: &str, agreed: Option<&Arc<ItemStructure>>) {
        let Some(agreed) = agreed else { return };
        self.agreed.lock().insert(Arc::from(table), Arc::clone(agreed));
        if !agreed.is_signature {
            self.made.lock().insert(Arc::from(table), Arc::clone(&agreed.names));
        }
    }

    /// The table is gone, and what was said of it.
    pub(crate) fn forget(&self, table: &str) {
        self.agreed.lock().remove(table);
        self.made.lock().remove(table);
    }

    /// All proposals that were made, to be made again: the server may have begun anew.
    pub(crate) fn all(&self) -> Vec<Proposal> {
        let made = self.made.lock();
        let proposal = |(table, structure): (&Arc<str>, &Arc<Nest<()>>)| Proposal {
            table: Arc::clone(table),
            structure: Arc::clone(structure),
        };
        made.iter().map(proposal).collect()
    }
}
