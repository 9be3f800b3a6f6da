//! A running server.

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use relive_engine::Engine;
use relive_server::{HttpServer, ServerOptions};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::begin::Folders;
use crate::endpoint::Bound;
use crate::{Error, ErrorKind, Result};

/// A replay server that runs on the caller's Tokio runtime.
///
/// [`Server::builder`] configures and starts one.
///
/// # Example
///
/// ```
/// use relive_client::{Client, Nest, Tensor};
/// use relive_host::Server;
/// use relive_table::TableConfig;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::builder().table(TableConfig::queue("steps", 100)).bind("127.0.0.1:0").await?;
/// let client = Client::connect(server.address())?;
/// client.insert(&Nest::Leaf(Tensor::scalar(1.0_f32)), &[("steps", 1.0)]).await?;
/// assert_eq!(client.server_info().await?.tables[0].current_size, 1);
/// server.stop().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Stopping
///
/// [`stop`](Self::stop) sends outstanding confirmations, writes the last checkpoint if one is configured, and waits for
/// the confirmations and the checkpoint. Dropping a server starts the same steps without waiting for them.
#[derive(Debug)]
pub struct Server {
    engine: Engine,
    options: ServerOptions,
    http: Option<HttpServer>,
    /// The entrances, if the server is listening.
    listening: Option<Listening>,
    /// The folders of a server that is not listening. If the server is listening, its task owns the folders.
    folders: Option<Folders>,
    ended: watch::Sender<bool>,
}

#[derive(Debug)]
struct Listening {
    address: SocketAddr,
    open_address: Option<SocketAddr>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<io::Result<()>>,
}

impl Server {
    pub(crate) fn new(
        engine: Engine,
        folders: Folders,
        http: Option<HttpServer>,
        options: ServerOptions,
    ) -> Self {
        let ended = watch::Sender::new(false);
        Self { engine, options, http, listening: None, folders: Some(folders), ended }
    }

    /// Opens a port for a server that does not have one. Serves the connections to `bound` in a task of the calling
    /// Tokio runtime.
    ///
    /// ```
    /// use relive_host::{Endpoint, Server};
    /// use relive_table::TableConfig;
    ///
    /// # #[tokio::main]
    /// # async fn main() -> relive_host::Result<()> {
    /// let mut server = Server::builder().table(TableConfig::queue("steps", 100)).in_process().await?;
    /// server.listen(Endpoint::new(":0").bind().await?)?;
    /// assert_ne!(server.address().port(), 0);
    /// # server.stop().await
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Bind` if the server is already listening.
    pub fn listen(&mut self, bound: Bound) -> Result<()> {
        if let Some(Listening { address, .. }) = &self.listening {
            let text = format!("the server is already listening at {address}");
            return Err(Error::new(ErrorKind::Bind, text));
        }
        let (address, open_address) = (bound.address(), bound.open_address());
        let (stop, stopped) = oneshot::channel::<()>();
        let (folders, ended) = (self.folders.take(), self.ended.clone());
        let served = bound.serve(self.engine.clone(), self.options.clone(), async { drop(stopped.await) });
        let task = tokio::spawn(async move {
            let served = served.await;
            if let Err(error) = &served {
                tracing::error!(target: "relive::server", "the server at {address} failed: {error}");
            }
            folders.iter().for_each(Folders::release);
            ended.send_replace(true);
            served
        });
        self.listening = Some(Listening { address, open_address, stop, task });
        Ok(())
    }

    /// Returns the address to which clients connect. Its port is 0 while an
    /// [in-process](crate::ServerBuilder::in_process) server is not listening.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        self.listening.as_ref().map_or(nowhere, |listening| listening.address)
    }

    /// Returns the address of the [entrance without TLS or tokens](crate::Endpoint::open_entrance), if there is one.
    #[must_use]
    pub fn open_address(&self) -> Option<SocketAddr> {
        self.listening.as_ref().and_then(|listening| listening.open_address)
    }

    /// Returns the address of metrics, health and the dashboard, if [`ServerBuilder::http`](crate::ServerBuilder::http)
    /// was called.
    #[must_use]
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(HttpServer::address)
    }

    /// Returns the tables, for use in this process without a connection.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Completes when the server has ended, by [`stop`](Self::stop) or by itself.
    pub fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut ended = self.ended.subscribe();
        // If the sender has been dropped, the server has ended as well.
        async move { drop(ended.wait_for(|ended| *ended).await) }
    }

    /// Stops the server in an orderly way: confirmations of completed inserts are still sent, waiting calls fail, and
    /// the last checkpoint is written if one is configured.
    ///
    /// # Errors
    /// `LastCheckpoint` if the last checkpoint could not be written; `Ended` if the listener had already failed, or if
    /// other code ended the server's task.
    pub async fn stop(mut self) -> Result<()> {
        let served = match self.listening.take() {
            Some(Listening { stop, task, .. }) => {
                drop(stop);
                task.await.map_err(|error| {
                    Error::new(ErrorKind::Ended, error)
                        .with_context(|text| format!("the server's task ended unexpectedly: {text}"))
                })?
            }
            None => match self.engine.shut_down() {
                Some(last) => last.await.map(drop).map_err(io::Error::other),
                None => Ok(()),
            },
        };
        self.http = None;
        self.folders.take().iter().for_each(Folders::release);
        self.ended.send_replace(true);
        served.map_err(Error::ended)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // If the server is listening, taking the field signals its task to stop.
        if self.listening.take().is_none() {
            drop(self.engine.shut_down());
            self.ended.send_replace(true);
        }
    }
}
