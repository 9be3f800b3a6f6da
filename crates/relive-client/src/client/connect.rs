//! The client and how it is made.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use relive_engine::Engine;

use super::local::Local;
use super::remote::Remote;
use super::returned::Remembered;
use super::{ClientOptions, Proposals, Transport};
use crate::Result;
use crate::bulk::Dialer;
use crate::many::{self, Many};
use crate::writer::SignatureCache;

/// A client of one replay server: Relive's or dm-reverb's over TCP, or tables in this very process.
///
/// In the same process nothing is serialised: chunks are encoded once and shared with the tables, and calls that do not
/// have to wait need no runtime.
///
/// Cheap to clone; clones share the connection. Nothing is connected before the first call, and a lost connection is
/// made again by the next one. A call may take as long as the options say; [`with_timeout`](Client::with_timeout) gives a clone
/// whose calls may take another time.
///
/// ```no_run
/// use relive_client::{Client, Nest, Tensor};
///
/// # async fn run() -> Result<(), relive_client::Error> {
/// let client = Client::connect("localhost:8000")?;
/// let step = Nest::List(vec![Nest::Leaf(Tensor::scalar(1.0_f32))]);
/// client.insert(&step, &[("replay", 1.0)]).await?;
/// let samples = client.sample("replay", 1).await?;
/// assert_eq!(samples[0].columns()?, [Tensor::from_slice(&[1.0_f32], [1]).expect("one value in one row")]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    pub(super) shared: Arc<Shared>,
    timeout: Duration,
}

pub(super) struct Shared {
    pub(super) options: ClientOptions,
    connection: Connection,
    pub(super) signatures: SignatureCache,
    pub(super) proposals: Arc<Proposals>,
    pub(super) remembered: Remembered,
}

/// The way to the tables.
pub(crate) enum Connection {
    /// A server, over TCP.
    Remote(Box<Remote>),
    /// Tables of this process.
    Local(Local),
    /// Many servers, each with a client of its own.
    Many(Arc<Many>),
}

impl Client {
    /// A client of the server at `address`: a `SocketAddr`, `host:port` or `http://host:port`. Must be called inside a Tokio runtime;
    /// [`blocking::Client`](crate::blocking::Client) needs none.
    ///
    /// A list with commas, `host1:port,host2:port`, and a name whose addresses are all servers, `dns:///name:port`, make a client of
    /// [many servers](Self::connect_many).
    ///
    /// # Errors
    /// `InvalidArgument` for an address that cannot be one. Whether a server is there shows with the first call.
    pub fn connect(address: impl ToString) -> Result<Client> {
        Client::connect_with(address, ClientOptions::default())
    }

    /// A client with other than the default options.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    #[expect(clippy::needless_pass_by_value, reason = "so that an address can be given as it is at hand")]
    pub fn connect_with(address: impl ToString, options: ClientOptions) -> Result<Client> {
        let address = address.to_string();
        if many::is_many(&address) {
            return Client::connect_many_with(&[address], options);
        }
        Client::connect_one(&address, options)
    }

    /// A client of one server, whatever the address looks like.
    pub(crate) fn connect_one(address: &str, options: ClientOptions) -> Result<Client> {
        let connection = Connection::Remote(Box::new(Remote::new(address, &options)?));
        Ok(Client::with_connection(connection, options, Arc::default()))
    }

    /// A client of the tables of `engine`, without a network. Once the engine is closed, calls fail with `Cancelled`.
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

    /// [`in_process`](Self::in_process) with other than the default options, of which only the timeout has a meaning.
    pub fn in_process_with(engine: Engine, options: ClientOptions) -> Client {
        Client::with_connection(Connection::Local(Local::new(engine)), options, Arc::default())
    }

    pub(super) fn with_connection(
        connection: Connection,
        options: ClientOptions,
        proposals: Arc<Proposals>,
    ) -> Client {
        let (signatures, timeout) = (SignatureCache::default(), options.timeout);
        let remembered = Remembered::default();
        let shared = Shared { options, connection, signatures, proposals, remembered };
        Client { shared: Arc::new(shared), timeout }
    }

    /// A client of what another has, with the time that its options say.
    pub(super) fn of_shared(shared: Arc<Shared>) -> Client {
        let timeout = shared.options.timeout;
        Client { shared, timeout }
    }

    /// This client with another time for each call, and for those of the writers and samplers that it makes.
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
        Client { shared: Arc::clone(&self.shared), timeout }
    }

    /// How long each call may take.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// How this client reaches its tables, as far as it is known: `Tcp` before the first batch or
    /// [`negotiate`](Self::negotiate).
    pub fn transport(&self) -> Transport {
        match self.connection() {
            Connection::Remote(remote) => {
                remote.routes().known().map_or(Transport::Tcp, |dialer| dialer.transport())
            }
            Connection::Local(_) => Transport::InProcess,
            Connection::Many(many) => many.transport(),
        }
    }

    /// Finds out how this client reaches its tables; asks the server the first time.
    ///
    /// # Errors
    /// The server is away; `FailedPrecondition` if the way that the options ask for does not lead to it.
    pub async fn negotiate(&self) -> Result<Transport> {
        if let Connection::Many(many) = self.connection() {
            return many.negotiate(self.timeout()).await;
        }
        let dialer = self.route().await?;
        Ok(dialer.map_or_else(|| self.transport(), |dialer| dialer.transport()))
    }

    /// Takes note that nothing but gRPC leads to the server.
    pub(crate) fn give_route_up(&self) {
        if let Connection::Remote(remote) = self.connection() {
            remote.routes().give_up();
        }
    }

    /// Has the way for batches looked for again, after it has led nowhere.
    pub(crate) fn forget_route(&self) {
        if let Connection::Remote(remote) = self.connection() {
            remote.routes().forget();
        }
    }

    /// The way for batches of a server that has one.
    pub(crate) async fn route(&self) -> Result<Option<Dialer>> {
        match self.connection() {
            Connection::Remote(remote) => {
                let options = self.options();
                remote.routes().find(remote, options.transport, options.connect_timeout).await
            }
            Connection::Local(_) | Connection::Many(_) => Ok(None),
        }
    }

    /// The address as a URI; `in-process` for tables of this process; the addresses as they were given of many servers.
    pub fn address(&self) -> &str {
        match self.connection() {
            Connection::Remote(remote) => remote.uri(),
            Connection::Local(_) => Transport::InProcess.text(),
            Connection::Many(many) => many.text(),
        }
    }

    /// How this client reaches its server.
    pub fn options(&self) -> &ClientOptions {
        &self.shared.options
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.shared.connection
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("address", &self.address()).finish_non_exhaustive()
    }
}
