//! The backend of a client's writers and readers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use relive_connection::{
    ClientOptions, Connection, Local, Proposal, Proposals, Result, ServerInfo, Transport, timeout_error,
};
use relive_engine::Engine;
use relive_table::ItemStructure;
use relive_tensor::Nest;

use crate::address::{is_many, sources};
use crate::fleet::Fleet;
use crate::signatures::{SignatureCache, TableSignature};

/// How long a writer's proposal waits for its server. Streams repeat the proposal after they reconnect.
const PROPOSAL_TIMEOUT: Duration = Duration::from_secs(60);

/// One server, many servers, or the tables in this process, with the known properties of the tables.
///
/// Cheap to clone; clones share connections. Each clone has its own timeout.
#[derive(Clone)]
pub struct Backend {
    shared: Arc<Shared>,
    timeout: Duration,
}

struct Shared {
    target: Target,
    signatures: SignatureCache,
    proposals: Arc<Proposals>,
}

/// The kind of a backend.
pub enum Target {
    /// One server.
    Server(Connection),
    /// Tables in this process.
    Process(Local),
    /// Many servers.
    Fleet(Arc<Fleet>),
}

impl Backend {
    /// Creates a backend for the server at `address`, or for many servers if it is a comma-separated list or a name to
    /// be resolved. Must be called inside a Tokio runtime.
    ///
    /// # Errors
    /// `InvalidArgument` for a malformed address.
    pub fn connect(address: &str, options: ClientOptions) -> Result<Backend> {
        if is_many(address) {
            return Backend::connect_many(&[address], &options);
        }
        let timeout = options.call_timeout();
        let target = Target::Server(Connection::new(address, options)?);
        Ok(Backend::new(target, timeout, Arc::default()))
    }

    /// Creates a backend for all servers at `addresses`. Must be called inside a Tokio runtime: its tasks watch the
    /// servers.
    ///
    /// # Errors
    /// `InvalidArgument` for an empty list, a repeated address or a malformed address.
    pub fn connect_many<A: AsRef<str>>(addresses: &[A], options: &ClientOptions) -> Result<Backend> {
        let proposals: Arc<Proposals> = Arc::default();
        let fleet = Fleet::start(sources(addresses)?, options, Arc::clone(&proposals))?;
        Ok(Backend::new(Target::Fleet(fleet), options.call_timeout(), proposals))
    }

    /// Creates a backend for the tables of `engine`.
    pub fn in_process(engine: Engine, options: &ClientOptions) -> Backend {
        Backend::new(Target::Process(Local::new(engine)), options.call_timeout(), Arc::default())
    }

    /// Returns one of many servers, by its address.
    pub fn member(&self, address: &str) -> Option<Backend> {
        let Target::Fleet(fleet) = self.target() else { return None };
        let connection = fleet.connection_to(address)?;
        let timeout = connection.options().call_timeout();
        Some(Backend::new(Target::Server(connection), timeout, Arc::default()))
    }

    fn new(target: Target, timeout: Duration, proposals: Arc<Proposals>) -> Backend {
        let signatures = SignatureCache::default();
        Backend { shared: Arc::new(Shared { target, signatures, proposals }), timeout }
    }

    /// Returns the same backend with a different timeout.
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Backend {
        Backend { shared: Arc::clone(&self.shared), timeout }
    }

    /// Returns the timeout for calls.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns the kind of the backend.
    pub fn target(&self) -> &Target {
        &self.shared.target
    }

    /// Returns the proposals of writers.
    pub fn proposals(&self) -> &Proposals {
        &self.shared.proposals
    }

    /// Returns the address: a URI for one server, `in-process` for tables in this process, or the addresses as given
    /// for many servers.
    pub fn address(&self) -> &str {
        match self.target() {
            Target::Server(server) => server.address(),
            Target::Process(_) => Transport::InProcess.text(),
            Target::Fleet(fleet) => fleet.text(),
        }
    }

    /// Returns the transport of bulk data, or `Tcp` if it has not been negotiated yet.
    pub fn transport(&self) -> Transport {
        match self.target() {
            Target::Server(server) => server.transport(),
            Target::Process(_) => Transport::InProcess,
            Target::Fleet(fleet) => fleet.transport(),
        }
    }

    /// Returns the tables. Errors refer to the call as `operation`. Waits until a server answers.
    ///
    /// # Errors
    /// `Timeout` if no server answers in time.
    pub async fn server_info(&self, operation: &'static str) -> Result<ServerInfo> {
        let info = match self.target() {
            Target::Server(server) => server.server_info(operation, self.timeout).await?,
            Target::Process(local) => local.server_info(),
            Target::Fleet(fleet) => fleet.server_info(operation, self.timeout).await?,
        };
        self.shared.signatures.replace(&info.tables);
        Ok(info)
    }

    /// Returns the signature of `table`, if it is known without a request to a server.
    ///
    /// # Errors
    /// `NotFound` for a table that does not exist in this process.
    pub fn known_signature(&self, table: &str) -> Result<Option<Arc<TableSignature>>> {
        match self.target() {
            Target::Server(_) | Target::Fleet(_) => Ok(self.shared.signatures.get(table)),
            Target::Process(local) => {
                let config = local.table("create_item", table)?.config();
                Ok(Some(self.shared.signatures.of(&config)))
            }
        }
    }

    /// Forgets what is known of the columns of `table`, because it was dropped. A later table with its name may have
    /// others.
    pub fn forget_columns(&self, table: &str) {
        self.proposals().forget(table);
        self.shared.signatures.forget(table);
    }

    /// Returns a number that changes when this client drops a table or finds one with another signature, and, in process,
    /// whenever a table is added or dropped. What was known of tables before may then be wrong.
    pub fn tables_version(&self) -> u64 {
        match self.target() {
            Target::Server(_) | Target::Fleet(_) => self.shared.signatures.version(),
            Target::Process(local) => local.engine().tables_version(),
        }
    }

    /// Returns whether `table` is known to have a signature, which names its columns.
    pub fn has_signature(&self, table: &str) -> bool {
        self.known_signature(table).ok().flatten().is_some_and(|signature| signature.has_columns())
    }

    /// Returns the signature of `table`, after requesting it if it is not known yet.
    ///
    /// # Errors
    /// `NotFound` for an unknown table; `Timeout` if no server answers within `timeout`.
    pub async fn signature(&self, table: &str, timeout: Duration) -> Result<Arc<TableSignature>> {
        if let Some(known) = self.known_signature(table)? {
            return Ok(known);
        }
        self.with_timeout(timeout).server_info("create_item").await?;
        self.shared.signatures.get(table).ok_or_else(|| self.shared.signatures.unknown(table))
    }

    /// Proposes `structure` for the items of `table`. Returns whether the table keeps this structure.
    ///
    /// # Errors
    /// `InvalidArgument` for a structure that has no columns or exceeds the limits; `NotFound` for an unknown table;
    /// `Unimplemented` from a dm-reverb server; `Timeout` if no server answers in time.
    pub async fn name_columns(&self, table: &str, structure: &Nest<()>) -> Result<bool> {
        match self.target() {
            Target::Server(server) => server.name_columns(table, structure, self.timeout).await,
            Target::Process(local) => local.name_columns(table, structure),
            Target::Fleet(fleet) => fleet.name_columns(table, structure, self.timeout).await,
        }
    }

    /// Sends a proposal from a writer. The result is only logged.
    pub async fn propose(&self, proposal: &Proposal) {
        let backend = self.with_timeout(PROPOSAL_TIMEOUT.min(self.timeout));
        proposal.log(backend.name_columns(&proposal.table, &proposal.structure).await);
    }

    /// Returns the structure of all items of `table`, for a writer that adopts it: `structure`, unless the table
    /// already had another one. Returns `None` for dm-reverb servers, which store no structures.
    ///
    /// # Errors
    /// The errors of [`name_columns`](Self::name_columns).
    pub async fn agree_on_columns(
        &self,
        table: &str,
        structure: &Nest<()>,
    ) -> Result<Option<Arc<ItemStructure>>> {
        if let Some(agreed) = self.agree_at_once(table, structure)? {
            return Ok(Some(agreed));
        }
        let agreed = match self.target() {
            Target::Process(_) => return Ok(None),
            Target::Server(server) => server.agree_on_columns(table, structure, self.timeout).await?,
            Target::Fleet(fleet) => fleet.agree_on_columns(table, structure, self.timeout).await?,
        };
        self.proposals().note_agreed(table, agreed.as_ref());
        Ok(agreed)
    }

    /// Like [`agree_on_columns`](Self::agree_on_columns), but returns a result only if no request to a server is
    /// needed.
    ///
    /// # Errors
    /// The errors of [`name_columns`](Self::name_columns).
    pub fn agree_at_once(&self, table: &str, structure: &Nest<()>) -> Result<Option<Arc<ItemStructure>>> {
        match self.target() {
            Target::Process(local) => local.agree_on_columns(table, structure).map(Some),
            Target::Server(_) | Target::Fleet(_) => Ok(self.proposals().agreed(table)),
        }
    }

    /// Returns the error for `operation`, which timed out.
    pub fn timed_out(&self, operation: &str) -> relive_connection::Error {
        timeout_error(operation, self.timeout, self.address(), None)
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backend").field("address", &self.address()).finish_non_exhaustive()
    }
}
