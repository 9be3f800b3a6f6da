//! The settings of a server, and the order in which it starts.

use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use relive_engine::{BuildError, Engine, EngineBuilder};
use relive_server::{HttpServer, Monitor, ServerOptions};
use relive_table::{Extension, TableConfig};

use crate::address::Address;
use crate::begin::{Begin, open_tier};
use crate::checkpoints::Checkpoints;
use crate::endpoint::Endpoint;
use crate::server::Server;
use crate::{Result, Words};

/// Configures and starts a [`Server`].
///
/// [`bind`](Self::bind) starts a server that listens on a port; [`in_process`](Self::in_process) starts one that only
/// this process can use.
///
/// # Example
///
/// ```
/// use relive_host::{ErrorKind, Server};
/// use relive_table::TableConfig;
///
/// # #[tokio::main]
/// # async fn main() -> relive_host::Result<()> {
/// let server = Server::builder()
///     .table(TableConfig::new("replay"))
///     .table(TableConfig::queue("weights", 1))
///     .max_bytes(1 << 30) // 1 GiB of chunks.
///     .bind("127.0.0.1:0")
///     .await?;
/// assert_ne!(server.address().port(), 0, "the system chose a port");
/// server.stop().await?;
///
/// let error = Server::builder().bind("127.0.0.1:0").await.unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Tables, "a server needs a table");
/// # Ok(())
/// # }
/// ```
///
/// # Defaults
///
/// By default, a server has no bound on memory, no disk tier, no checkpoints, no HTTP port, no TLS and no tokens.
///
/// # Errors
///
/// [`bind`](Self::bind) checks all settings before it loads a checkpoint. Its error has a [kind](crate::ErrorKind) for
/// each group of settings.
#[derive(Default)]
pub struct ServerBuilder {
    tables: Vec<(TableConfig, Vec<Box<dyn Extension>>)>,
    seed: Option<u64>,
    max_bytes: Option<u64>,
    max_bytes_wait: Option<Duration>,
    spill: Option<PathBuf>,
    checkpoints: Checkpoints,
    http: Option<Address>,
    options: ServerOptions,
    words: Words,
}

impl Server {
    /// Creates a builder without tables.
    #[must_use]
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }
}

impl ServerBuilder {
    /// Adds a table.
    #[must_use]
    pub fn table(self, config: TableConfig) -> Self {
        self.table_with_extensions(config, Vec::new())
    }

    /// Adds a table whose operations run `extensions`.
    #[must_use]
    pub fn table_with_extensions(mut self, config: TableConfig, extensions: Vec<Box<dyn Extension>>) -> Self {
        self.tables.push((config, extensions));
        self
    }

    /// Derives every random choice of the tables from `seed`; see [`EngineBuilder::seed`].
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Bounds the memory of chunks; see [`EngineBuilder::max_bytes`]. Inserts beyond the bound wait, and eventually
    /// fail.
    #[must_use]
    pub fn max_bytes(mut self, max_bytes: u64) -> Self {
        self.max_bytes = Some(max_bytes);
        self
    }

    /// Sets how long inserts wait for memory; see [`EngineBuilder::max_bytes_wait`].
    #[must_use]
    pub fn max_bytes_wait(mut self, longest_wait: Duration) -> Self {
        self.max_bytes_wait = Some(longest_wait);
        self
    }

    /// Sets a folder on a fast disk. When the chunks are about to reach [`max_bytes`](Self::max_bytes), the server
    /// moves chunks that have not been read recently to this folder, and sampling reads them from there. Inserts wait
    /// only while the disk cannot keep up.
    #[must_use]
    pub fn spill(mut self, folder: impl Into<PathBuf>) -> Self {
        self.spill = Some(folder.into());
        self
    }

    /// Configures checkpoints: their location, their schedule, and which one is loaded when the server starts. By
    /// default, there are no checkpoints.
    #[must_use]
    pub fn checkpoints(mut self, checkpoints: Checkpoints) -> Self {
        self.checkpoints = checkpoints;
        self
    }

    /// Serves metrics (`/metrics`, for Prometheus), health (`/healthz`, `/readyz`) and a dashboard (`/`) over HTTP at
    /// `address`, even while the checkpoint is being loaded. Every client that can reach the address can read the names
    /// and statistics of the tables.
    ///
    /// ```
    /// use relive_host::ServerBuilder;
    /// use relive_table::TableConfig;
    ///
    /// # #[tokio::main]
    /// # async fn main() -> relive_host::Result<()> {
    /// let steps = TableConfig::queue("steps", 100);
    /// let server = ServerBuilder::default().table(steps).http(":0").bind(":0").await?;
    /// assert!(server.http_address().is_some());
    /// server.stop().await
    /// # }
    /// ```
    #[must_use]
    pub fn http(mut self, address: impl Into<Address>) -> Self {
        self.http = Some(address.into());
        self
    }

    /// Configures how the server treats its connections.
    #[must_use]
    pub fn options(mut self, options: ServerOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets the names by which messages refer to settings.
    #[must_use]
    pub fn words(mut self, words: Words) -> Self {
        self.words = words;
        self
    }

    /// Starts serving at `endpoint`, on the calling Tokio runtime: an [`Address`] in any of its forms, or an
    /// [`Endpoint`] with TLS and tokens.
    ///
    /// # Errors
    /// `Tables`, `Memory`, `Bind` and `Security` for unusable settings, before anything is loaded; `Restore`, `Location`,
    /// `Damaged`, `InUse` and `Storage` for errors that concern the checkpoint or the disk tier; `Ended` if the system
    /// cannot start a thread.
    pub async fn bind(self, endpoint: impl Into<Endpoint>) -> Result<Server> {
        let checked = endpoint.into().check().await?;
        let mut server = self.in_process().await?;
        server.listen(checked.listen()?)?;
        Ok(server)
    }

    /// Starts a server without a port. Only this process can reach the tables until [`Server::listen`] opens a port.
    ///
    /// # Errors
    /// The errors of [`bind`](Self::bind).
    pub async fn in_process(self) -> Result<Server> {
        self.check()?;
        let Self { tables, seed, max_bytes, max_bytes_wait, spill, checkpoints, http, options, words } = self;
        let monitor = options.monitor.clone().unwrap_or_default();
        let http = match http {
            Some(address) => Some(show(&address, &monitor, &words).await?),
            None => None,
        };
        let names = tables.iter().map(|(config, _)| config.name.clone()).collect();
        let mut engine = tables.into_iter().fold(Engine::builder(), |engine, (config, extensions)| {
            engine.table_with_extensions(config, extensions)
        });
        engine = seed.into_iter().fold(engine, EngineBuilder::seed);
        engine = max_bytes.into_iter().fold(engine, EngineBuilder::max_bytes);
        engine = max_bytes_wait.into_iter().fold(engine, EngineBuilder::max_bytes_wait);
        let spill = spill.map(|folder| open_tier(&folder, max_bytes, &words)).transpose()?;
        let begin = Begin { engine, names, checkpoints, spill, words };
        let begun = tokio::task::spawn_blocking(|| begin.run()).await;
        let (engine, folders) =
            begun.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))?;
        Ok(Server::new(engine, folders, http, options.monitor(monitor)))
    }

    /// Checks the settings, before anything is loaded.
    ///
    /// # Errors
    /// There is no table, two tables have the same name, or a setting is out of range.
    fn check(&self) -> Result<()> {
        if self.tables.is_empty() && !self.checkpoints.other_tables {
            return Err(BuildError::NoTables.into());
        }
        if self.max_bytes == Some(0) {
            return Err(BuildError::MaxBytes.into());
        }
        self.tables.iter().try_for_each(|(config, _)| config.validate()).map_err(BuildError::from)?;
        let mut names = HashSet::new();
        if let Some((config, _)) = self.tables.iter().find(|(config, _)| !names.insert(&config.name)) {
            return Err(BuildError::DuplicateName { name: config.name.clone() }.into());
        }
        Ok(self.checkpoints.check()?)
    }
}

/// Serves metrics, health and the dashboard, and logs the address.
async fn show(address: &Address, monitor: &Monitor, words: &Words) -> Result<HttpServer> {
    let http = address.show(words.http, monitor.clone()).await.map_err(|error| {
        error.with_context(|text| {
            if text.starts_with(words.http) { text.to_owned() } else { format!("{}: {text}", words.http) }
        })
    })?;
    let address = http.address();
    tracing::info!(target: "relive::server", %address, "metrics and dashboard at http://{address}/");
    if !address.ip().is_loopback() {
        tracing::warn!(
            target: "relive::server",
            %address,
            "metrics and dashboard are open to other machines without access control"
        );
    }
    Ok(http)
}

impl fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tables: Vec<_> = self.tables.iter().map(|(config, _)| &config.name).collect();
        let mut debug = f.debug_struct("ServerBuilder");
        debug.field("tables", &tables).field("checkpoints", &self.checkpoints).finish_non_exhaustive()
    }
}
