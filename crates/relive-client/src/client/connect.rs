//! The client and its constructors.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use relive_connection::{ClientOptions, Result, Transport};
use relive_engine::Engine;
use relive_fleet::{Backend, Fleet, ServerChange, ServerState, Target};
use relive_reader::IdleStreams;

/// A client for a replay server, for several servers, or for tables in this process.
///
/// | Constructor | Connects to |
/// |---|---|
/// | [`connect`](Client::connect) | one server, Relive's or dm-reverb's |
/// | [`connect_many`](Client::connect_many) | several servers, used as one |
/// | [`in_process`](Client::in_process) | the tables of an [`Engine`] in this process |
///
/// A `Client` is cheap to clone. Clones share its connections.
///
/// # Example
///
/// ```
/// use relive_client::{Client, Nest, Tensor};
/// use relive_engine::Engine;
/// use relive_table::TableConfig;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = Engine::builder().table(TableConfig::new("replay")).build()?;
/// let client = Client::in_process(engine);
///
/// let step = Nest::dict([("reward", Tensor::scalar(1.5_f32))]);
/// client.insert(&step, &[("replay", 0.5)]).await?;
///
/// let samples = client.sample("replay", 1).await?;
/// assert_eq!(samples[0].info().priority, 0.5);
/// assert_eq!(samples[0].columns()?, [Tensor::from_slice(&[1.5_f32], [1])?]);
/// # Ok(())
/// # }
/// ```
///
/// # Connections
///
/// A client connects on its first call, not when it is created, and reconnects after a lost connection. A client that
/// connects to a server needs a Tokio runtime, and works until the runtime in which it was created ends;
/// [`blocking::Client`](crate::blocking::Client) has its own.
///
/// # Tables in the same process
///
/// Nothing is serialized: chunks are encoded once and shared with the tables. Calls that do not have to wait work
/// without a Tokio runtime.
///
/// # Timeouts
///
/// A call may take as long as [`ClientOptions::timeout`] allows, 30 s by default.
/// [`with_timeout`](Client::with_timeout) returns a clone with a different timeout. Writers and samplers use the
/// timeout of the client that created them.
///
/// # Errors
///
/// Every call returns an [`Error`](crate::Error) with a [`kind`](crate::Error::kind), and a message that states the
/// condition for which the call was waiting. Most calls share these kinds:
///
/// | Kind | Meaning |
/// |---|---|
/// | `InvalidArgument` | an option, a step or a priority cannot be used |
/// | `NotFound` | no table has this name |
/// | `Timeout` | the call did not complete within its timeout |
/// | `Unavailable` | no server answers, or the connection broke during a call that is not repeated |
/// | `Unimplemented` | the server does not support the call; many calls need a Relive server |
#[derive(Clone)]
pub struct Client {
    pub(super) backend: Backend,
    /// Connections for calls that block their thread.
    pub(super) idle: Arc<IdleStreams>,
}

impl Client {
    /// Creates a client for the server at `address`: a `SocketAddr`, `host:port` or `http://host:port`.
    ///
    /// Must be called inside a Tokio runtime; [`blocking::Client`](crate::blocking::Client) does not need one.
    ///
    /// Two forms of `address` create a client for [many servers](Self::connect_many): a comma-separated list,
    /// `host1:port,host2:port`, and `dns:///name:port`, where the name has several addresses with a server at each.
    ///
    /// # Errors
    /// `InvalidArgument` for a malformed address. An unreachable server is not an error here; instead, the first call
    /// fails.
    pub fn connect(address: impl ToString) -> Result<Client> {
        Client::connect_with(address, ClientOptions::default())
    }

    /// Like [`connect`](Self::connect), but with `options`.
    ///
    /// # Errors
    /// The errors of [`connect`](Self::connect).
    #[expect(clippy::needless_pass_by_value, reason = "callers pass a `SocketAddr` or a string")]
    pub fn connect_with(address: impl ToString, options: ClientOptions) -> Result<Client> {
        Backend::connect(&address.to_string(), options).map(Client::of)
    }

    /// Creates a client that uses all servers at `addresses` as one. Each address is `host:port`, or `dns:///name:port`
    /// for all addresses of that name.
    ///
    /// Must be called inside a Tokio runtime: its tasks watch the servers.
    ///
    /// * Writers distribute their streams over the servers; a stream stays with its server.
    /// * Samples and batches come from all servers, weighted by the sizes of their tables: see
    ///   [`SampleInfo::probability`](crate::SampleInfo::probability).
    /// * Priority updates and deletions are sent to the server that has the item.
    /// * Reports from the servers are combined.
    /// * Resets, checkpoints and changes to tables apply to all servers, or fail with a
    ///   [`PartialFailure`](crate::PartialFailure).
    /// * A server that does not answer is left out until it answers again; no call waits for it.
    ///   [`servers`](Self::servers) and [`server_changes`](Self::server_changes) list such servers.
    ///
    /// ```no_run
    /// use relive_client::{BatchOptions, Client};
    ///
    /// # async fn run() -> Result<(), relive_client::Error> {
    /// let client = Client::connect_many(&["replay-0:8000", "replay-1:8000"])?;
    /// let mut batches = client.batches("replay", BatchOptions::new(256))?;
    /// if let Some(batch) = batches.next().await {
    ///     let keys: Vec<(u64, f64)> = batch?.infos().map(|info| (info.key, 1.0)).collect();
    ///     client.update_priorities("replay", &keys).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` for an empty list, a repeated address or a malformed address.
    pub fn connect_many<A: AsRef<str>>(addresses: &[A]) -> Result<Client> {
        Client::connect_many_with(addresses, ClientOptions::default())
    }

    /// Like [`connect_many`](Self::connect_many), but with `options`.
    ///
    /// # Errors
    /// The errors of [`connect_many`](Self::connect_many).
    #[expect(clippy::needless_pass_by_value, reason = "like the other constructors of a client")]
    pub fn connect_many_with<A: AsRef<str>>(addresses: &[A], options: ClientOptions) -> Result<Client> {
        Backend::connect_many(addresses, &options).map(Client::of)
    }

    /// Creates a client for the tables of `engine`, without a network. Once the engine is closed, calls fail with
    /// `Cancelled`.
    ///
    /// ```
    /// use relive_client::{Client, Transport};
    /// use relive_engine::Engine;
    /// use relive_table::TableConfig;
    ///
    /// let engine = Engine::builder().table(TableConfig::queue("steps", 100)).build()?;
    /// let client = Client::in_process(engine);
    /// assert_eq!(client.transport(), Transport::InProcess);
    /// # Ok::<(), relive_engine::BuildError>(())
    /// ```
    pub fn in_process(engine: Engine) -> Client {
        Client::in_process_with(engine, ClientOptions::default())
    }

    /// Like [`in_process`](Self::in_process), but with `options`, of which only the timeout has an effect.
    #[expect(clippy::needless_pass_by_value, reason = "like the other constructors of a client")]
    pub fn in_process_with(engine: Engine, options: ClientOptions) -> Client {
        Client::of(Backend::in_process(engine, &options))
    }

    fn of(backend: Backend) -> Client {
        Client { backend, idle: Arc::default() }
    }

    /// Returns a clone of this client with a different timeout, which also applies to the writers and samplers that it
    /// creates.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use relive_client::{Client, ErrorKind};
    /// # use relive_engine::Engine;
    /// # use relive_table::TableConfig;
    ///
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// # let client = Client::in_process(Engine::builder().table(TableConfig::queue("steps", 100)).build()?);
    /// # runtime.block_on(async {
    /// let hasty = client.with_timeout(Duration::from_millis(10));
    /// let error = hasty.sample("steps", 1).await.expect_err("the table is empty");
    /// assert_eq!(error.kind(), ErrorKind::Timeout);
    /// # });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Client {
        Client { backend: self.backend.with_timeout(timeout), idle: Arc::clone(&self.idle) }
    }

    /// Returns the timeout for calls.
    pub fn timeout(&self) -> Duration {
        self.backend.timeout()
    }

    /// Returns how this client reaches its tables, or `Tcp` before the first batch or [`negotiate`](Self::negotiate).
    pub fn transport(&self) -> Transport {
        self.backend.transport()
    }

    /// Returns how this client reaches its tables. The first call queries the server.
    ///
    /// # Errors
    /// `FailedPrecondition` if the transport in the options does not reach the server, or another error if the server
    /// is unreachable.
    pub async fn negotiate(&self) -> Result<Transport> {
        match self.backend.target() {
            Target::Server(server) => server.dialer().await.map(|_| server.transport()),
            Target::Process(_) => Ok(Transport::InProcess),
            Target::Fleet(fleet) => fleet.negotiate(self.timeout()).await,
        }
    }

    /// Returns the address: a URI for one server, `in-process` for tables in this process, or the addresses as given
    /// for many servers.
    pub fn address(&self) -> &str {
        self.backend.address()
    }

    /// Returns the current state of each of the client's servers. For a client that uses only one server, the list is
    /// empty, because that server is not monitored.
    pub fn servers(&self) -> Vec<ServerState> {
        self.fleet().map(Fleet::states).unwrap_or_default()
    }

    /// Returns the last 256 events, oldest first, in which a server was left out, rejoined, or disappeared from the
    /// addresses of its name.
    pub fn server_changes(&self) -> Vec<ServerChange> {
        self.fleet().map(Fleet::changes).unwrap_or_default()
    }

    /// Returns a client for a single one of many servers, selected by its address in [`servers`](Self::servers).
    pub fn server(&self, address: &str) -> Option<Client> {
        self.backend.member(address).map(Client::of)
    }

    fn fleet(&self) -> Option<&Fleet> {
        match self.backend.target() {
            Target::Fleet(fleet) => Some(fleet),
            Target::Server(_) | Target::Process(_) => None,
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("address", &self.address()).finish_non_exhaustive()
    }
}
