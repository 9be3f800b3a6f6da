//! What a client's writers and readers use.

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

/// How long a proposal of a writer waits for its server. Streams that find their server again repeat it.
const PROPOSAL_TIMEOUT: Duration = Duration::from_secs(60);

/// One server, many, or the tables of this process, with what is known of the tables.
///
/// Cheap to clone; clones share connections. Each has its own timeout.
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

/// Which of the three it is.
pub enum Target {
    /// One server.
    Server(Connection),
    /// Tables of this process.
    Process(Local),
    /// Many servers.
    Fleet(Arc<Fleet>),
}

impl Backend {
    /// The server at `address`, or many servers if it is a list with commas or a name to be resolved. Must be called
    /// inside a Tokio runtime.
    ///
    /// # Errors
    /// `InvalidArgument` for an address that cannot be one.
    pub fn connect(address: &str, options: ClientOptions) -> Result<Backend> {
        if is_many(address) {
            return Backend::connect_many(&[address], &options);
        }
        let timeout = options.call_timeout();
        let target = Target::Server(Connection::new(address, options)?);
        Ok(Backend::new(target, timeout, Arc::default()))
    }

    /// All servers at `addresses`. Must be called inside a Tokio runtime, whose tasks watch them.
    ///
    /// # Errors
    /// `InvalidArgument` for no addresses, the same twice, and one that cannot be one.
    pub fn connect_many<A: AsRef<str>>(addresses: &[A], options: &ClientOptions) -> Result<Backend> {
        let proposals: Arc<Proposals> = Arc::default();
        let fleet = Fleet::start(sources(addresses)?, options, Arc::clone(&proposals))?;
        Ok(Backend::new(Target::Fleet(fleet), options.call_timeout(), proposals))
    }

    /// The tables of `engine`.
    pub fn in_process(engine: Engine, options: &ClientOptions) -> Backend {
        Backend::new(Target::Process(Local::new(engine)), options.call_timeout(), Arc::default())
    }

    /// One of many servers, by its address.
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

    /// The same with another time for each call.
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Backend {
        Backend { shared: Arc::clone(&self.shared), timeout }
    }

    /// How long each call may take.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Which of the three it is.
    pub fn target(&self) -> &Target {
        &self.shared.target
    }

    /// What writers have proposed.
    pub fn proposals(&self) -> &Proposals {
        &self.shared.proposals
    }

    /// The address as a URI; `in-process` for tables of this process; the addresses as they were given of many servers.
    pub fn address(&self) -> &str {
        match self.target() {
            Target::Server(server) => server.address(),
            Target::Process(_) => Transport::InProcess.text(),
            Target::Fleet(fleet) => fleet.text(),
        }
    }

    /// The transport of bulk data, as far as it is known: `Tcp` before it was negotiated.
    pub fn transport(&self) -> Transport {
        match self.target() {
            Target::Server(server) => server.transport(),
            Target::Process(_) => Transport::InProcess,
            Target::Fleet(fleet) => fleet.transport(),
        }
    }

    /// The tables, for `operation`, which errors name. Waits for a server to be there.
    ///
    /// # Errors
    /// `Timeout` when no server answers in time.
    pub async fn server_info(&self, operation: &'static str) -> Result<ServerInfo> {
        let info = match self.target() {
            Target::Server(server) => server.server_info(operation, self.timeout).await?,
            Target::Process(local) => local.server_info(),
            Target::Fleet(fleet) => fleet.server_info(operation, self.timeout).await?,
        };
        self.shared.signatures.replace(&info.tables);
        Ok(info)
    }

    /// The signature of `table`, if it can be told without asking a server.
    ///
    /// # Errors
    /// `NotFound` for a table that this process does not have.
    pub fn known_signature(&self, table: &str) -> Result<Option<Arc<TableSignature>>> {
        match (self.shared.signatures.get(table), self.target()) {
            (Some(known), _) => Ok(Some(known)),
            (None, Target::Server(_) | Target::Fleet(_)) => Ok(None),
            (None, Target::Process(local)) => {
                let config = local.table("create_item", table)?.config();
                Ok(Some(self.shared.signatures.add(&config)))
            }
        }
    }

    /// Whether `table` is known to have a signature, which names its columns.
    pub fn has_signature(&self, table: &str) -> bool {
        self.known_signature(table).ok().flatten().is_some_and(|signature| signature.has_columns())
    }

    /// The signature of `table`, asked for if it is not known yet.
    ///
    /// # Errors
    /// `NotFound` for an unknown table, `Timeout` when no server answers within `timeout`.
    pub async fn signature(&self, table: &str, timeout: Duration) -> Result<Arc<TableSignature>> {
        if let Some(known) = self.known_signature(table)? {
            return Ok(known);
        }
        self.with_timeout(timeout).server_info("create_item").await?;
        self.shared.signatures.get(table).ok_or_else(|| self.shared.signatures.unknown(table))
    }

    /// Proposes `structure` as what the items of `table` look like. Whether the table keeps it.
    ///
    /// # Errors
    /// `InvalidArgument` for a structure without columns, or beyond the limits; `NotFound` for an unknown table,
    /// `Unimplemented` from a dm-reverb server, `Timeout` when no server answers in time.
    pub async fn name_columns(&self, table: &str, structure: &Nest<()>) -> Result<bool> {
        match self.target() {
            Target::Server(server) => server.name_columns(table, structure, self.timeout).await,
            Target::Process(local) => local.name_columns(table, structure),
            Target::Fleet(fleet) => fleet.name_columns(table, structure, self.timeout).await,
        }
    }

    /// Makes a proposal of a writer. What becomes of it is only logged.
    pub async fn propose(&self, proposal: &Proposal) {
        let backend = self.with_timeout(PROPOSAL_TIMEOUT.min(self.timeout));
        proposal.log(backend.name_columns(&proposal.table, &proposal.structure).await);
    }

    /// What all items of `table` look like, for a writer that keeps to the answer: `structure`, if nobody has said
    /// anything else. None of servers that keep no structures: dm-reverb's.
    ///
    /// # Errors
    /// As [`name_columns`](Self::name_columns).
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

    /// [`agree_on_columns`](Self::agree_on_columns), if no server has to be asked for it.
    ///
    /// # Errors
    /// As [`name_columns`](Self::name_columns).
    pub fn agree_at_once(&self, table: &str, structure: &Nest<()>) -> Result<Option<Arc<ItemStructure>>> {
        match self.target() {
            Target::Process(local) => local.agree_on_columns(table, structure).map(Some),
            Target::Server(_) | Target::Fleet(_) => Ok(self.proposals().agreed(table)),
        }
    }

    /// The error of `operation`, which was not answered in time.
    pub fn timed_out(&self, operation: &str) -> relive_connection::Error {
        timeout_error(operation, self.timeout, self.address(), None)
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backend").field("address", &self.address()).finish_non_exhaustive()
    }
}
