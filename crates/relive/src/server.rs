//! A server in the caller's process.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use relive_engine::{BuildError, Engine, EngineBuilder, EngineError};
use relive_server::access::{Access, Role};
use relive_server::tls::ServerTls;
use relive_server::{BindError, Entrance, Entrances, HttpServer, ServerOptions, bind, serve};
use relive_table::{CheckpointProgress, SavedCheckpoint, Snapshot, TableConfig};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A replay server that runs on the caller's Tokio runtime. Dropping it stops it without waiting.
///
/// ```
/// use relive::{Server, TableConfig};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), relive::ServerError> {
/// let address = "127.0.0.1:0".parse().expect("an address");
/// let server = Server::builder().table(TableConfig::queue("steps", 100)).bind(address).await?;
/// assert_ne!(server.address().port(), 0);
/// server.stop().await
/// # }
/// ```
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    open_address: Option<SocketAddr>,
    engine: Engine,
    stop: oneshot::Sender<()>,
    task: JoinHandle<io::Result<()>>,
    http: Option<HttpServer>,
}

/// Why a server cannot start, or ended badly.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The tables cannot be.
    #[error(transparent)]
    Tables(#[from] BuildError),
    /// The address cannot be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The listener broke, or the last checkpoint could not be written.
    #[error("the server ended badly: {0}")]
    Listener(#[from] io::Error),
    /// The server's task was ended from outside, or panicked.
    #[error("the server's task ended before its time: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// A [`Server`] to be.
#[derive(Default)]
pub struct ServerBuilder {
    engine: EngineBuilder,
    options: ServerOptions,
    tls: Option<ServerTls>,
    access: Option<Access>,
    open_address: Option<(SocketAddr, Role)>,
    http: Option<SocketAddr>,
}

impl Server {
    /// Begins a server without tables.
    #[must_use]
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// The address that clients connect to.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of the [entrance without TLS and tokens](ServerBuilder::open_entrance), if there is one.
    #[must_use]
    pub fn open_address(&self) -> Option<SocketAddr> {
        self.open_address
    }

    /// Where metrics, health and the dashboard are, if [`ServerBuilder::http`] asked for them.
    #[must_use]
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(HttpServer::address)
    }

    /// The tables, for use in this process without a connection.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Stops in order: confirmations of inserts that did happen are still sent, waiting calls get an error, and the last checkpoint
    /// is written if [`ServerBuilder::checkpoint_at_shutdown`] asked for one.
    ///
    /// # Errors
    /// The listener had broken before, the last checkpoint cannot be written, or the task was ended from outside.
    pub async fn stop(self) -> Result<(), ServerError> {
        drop(self.stop);
        self.task.await?.map_err(ServerError::from)
    }
}

impl ServerBuilder {
    /// Adds a table.
    #[must_use]
    pub fn table(mut self, config: TableConfig) -> ServerBuilder {
        self.engine = self.engine.table(config);
        self
    }

    /// Bounds what chunks take in memory; see [`EngineBuilder::max_bytes`]. Clients that insert more wait, and get an error
    /// in the end.
    #[must_use]
    pub fn max_bytes(mut self, max_bytes: u64) -> ServerBuilder {
        self.engine = self.engine.max_bytes(max_bytes);
        self
    }

    /// How long inserts wait for memory; see [`EngineBuilder::max_bytes_wait`].
    #[must_use]
    pub fn max_bytes_wait(mut self, longest_wait: Duration) -> ServerBuilder {
        self.engine = self.engine.max_bytes_wait(longest_wait);
        self
    }

    /// Has `save` write the checkpoints of the tables; see [`EngineBuilder::checkpointer`].
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use relive::table::{SavedCheckpoint, TableConfig};
    /// use relive::Server;
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), relive::ServerError> {
    /// let address = "127.0.0.1:0".parse().expect("an address");
    /// let server = Server::builder()
    ///     .table(TableConfig::queue("steps", 100))
    ///     .checkpointer(|snapshot, _progress| {
    ///         // Write it to where it lasts, and say where that is.
    ///         let location = format!("{} tables", snapshot.tables.len());
    ///         Ok(SavedCheckpoint { location, written_bytes: 0, total_bytes: 0 })
    ///     })
    ///     .checkpoint_every(Duration::from_secs(600))
    ///     .checkpoint_at_shutdown(true)
    ///     .bind(address)
    ///     .await?;
    /// let engine = server.engine().clone();
    /// server.stop().await?;
    /// let last = engine.checkpoint_status().last.expect("one is written at shutdown");
    /// assert_eq!(last.saved().expect("it was written").location, "1 tables");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn checkpointer(
        mut self,
        save: impl Fn(Snapshot, &CheckpointProgress) -> Result<SavedCheckpoint, EngineError>
        + Send
        + Sync
        + 'static,
    ) -> ServerBuilder {
        self.engine = self.engine.checkpointer(save);
        self
    }

    /// Writes a checkpoint every so often; see [`EngineBuilder::checkpoint_every`].
    #[must_use]
    pub fn checkpoint_every(mut self, interval: Duration) -> ServerBuilder {
        self.engine = self.engine.checkpoint_every(interval);
        self
    }

    /// Writes a checkpoint when the server stops, after its tables are closed: it has every item that was confirmed.
    #[must_use]
    pub fn checkpoint_at_shutdown(mut self, yes: bool) -> ServerBuilder {
        self.engine = self.engine.checkpoint_at_close(yes);
        self
    }

    /// Enciphers everything, and proves to clients who this server is; see `docs/security.md`.
    #[must_use]
    pub fn tls(mut self, tls: ServerTls) -> ServerBuilder {
        self.tls = Some(tls);
        self
    }

    /// Says who may do what; everybody may do everything unless this is set.
    #[must_use]
    pub fn access(mut self, access: Access) -> ServerBuilder {
        self.access = Some(access);
        self
    }

    /// Listens at a second address without TLS and tokens, for dm-reverb's clients, which know neither. Who comes in there has
    /// `role`.
    #[must_use]
    pub fn open_entrance(mut self, address: SocketAddr, role: Role) -> ServerBuilder {
        self.open_address = Some((address, role));
        self
    }

    /// Shows metrics (`/metrics`, for Prometheus), health (`/healthz`, `/readyz`) and a dashboard (`/`) over HTTP at `address`; port
    /// 0 takes a free one, which [`Server::http_address`] tells. Whoever reaches it can read names and numbers of the tables.
    ///
    /// ```
    /// use relive::{Server, TableConfig};
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), relive::ServerError> {
    /// let any = "127.0.0.1:0".parse().expect("an address");
    /// let server = Server::builder().table(TableConfig::queue("steps", 100)).http(any).bind(any).await?;
    /// assert!(server.http_address().is_some());
    /// server.stop().await
    /// # }
    /// ```
    #[must_use]
    pub fn http(mut self, address: SocketAddr) -> ServerBuilder {
        self.http = Some(address);
        self
    }

    /// How the server behaves.
    #[must_use]
    pub fn options(mut self, options: ServerOptions) -> ServerBuilder {
        self.options = options;
        self
    }

    /// Starts serving at `address`; port 0 takes a free one.
    ///
    /// # Errors
    /// No tables or ones that cannot be, an address that is in use or not this machine's.
    pub async fn bind(self, address: SocketAddr) -> Result<Server, ServerError> {
        let ServerBuilder { engine, options, tls, access, open_address, http } = self;
        let monitor = options.monitor.clone().unwrap_or_default();
        let http = match http {
            Some(address) => Some(HttpServer::start(bind(address).await?, monitor.clone())?),
            None => None,
        };
        let options = options.monitor(monitor);
        let engine = engine.build()?;
        let listener = bind(address).await?;
        let address = listener.local_addr()?;
        let mut entrances = Entrances::from(entrance(listener, tls, access));
        let open_address = match open_address {
            Some((address, role)) => {
                let listener = bind(address).await?;
                let address = listener.local_addr()?;
                entrances = entrances.and(entrance(listener, None, Some(Access::Everybody(role))));
                Some(address)
            }
            None => None,
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let until_stopped = async { drop(stopped.await) };
        let task = tokio::spawn(serve(entrances, engine.clone(), options, until_stopped));
        Ok(Server { address, open_address, engine, stop, task, http })
    }
}

fn entrance(listener: TcpListener, tls: Option<ServerTls>, access: Option<Access>) -> Entrance {
    let entrance = Entrance::from(listener);
    let entrance = tls.into_iter().fold(entrance, Entrance::tls);
    access.into_iter().fold(entrance, Entrance::access)
}

impl fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerBuilder").field("options", &self.options).finish_non_exhaustive()
    }
}
