//! Serves existing tables in the background.

use std::sync::{Arc, Mutex, PoisonError};

use relive_engine::Engine;
use relive_server::{HttpServer, Monitor, ServerOptions};
use tokio::runtime::{Builder, Runtime};

use crate::address::Address;
use crate::endpoint::{Bound, Endpoint};
use crate::{Error, ErrorKind, Result};

/// Serves tables that already exist, such as those of a run, on its own thread until it is dropped. It does not load or
/// save checkpoints, and does not change the tables.
///
/// ```
/// use relive_engine::Engine;
/// use relive_host::Background;
/// use relive_server::ServerOptions;
/// use relive_table::TableConfig;
///
/// let background = Background::new()?;
/// let bound = background.bind(":0")?;
/// let address = bound.address();
/// let serve = background.serving(bound, None, ServerOptions::default(), "the run's tables");
/// serve(&Engine::builder().table(TableConfig::queue("steps", 10)).build()?);
/// let client = relive_client::blocking::Client::connect(address)?;
/// assert!(client.server_info()?.table("steps").is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Background {
    runtime: Option<Runtime>,
}

/// A function that serves the tables passed to it.
pub type Serve = Arc<dyn Fn(&Engine) + Send + Sync>;

impl Background {
    /// Starts a thread that waits for tables to serve.
    ///
    /// # Errors
    /// `Ended` if the system cannot start a thread.
    pub fn new() -> Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        Ok(Self { runtime: Some(runtime.map_err(|error| Error::new(ErrorKind::Ended, error))?) })
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("the runtime exists until this is dropped")
    }

    /// Starts listening, so that the address is known before the tables exist. Do not call it on a Tokio runtime.
    ///
    /// # Errors
    /// The errors of [`Endpoint::bind`].
    pub fn bind(&self, endpoint: impl Into<Endpoint>) -> Result<Bound> {
        self.runtime().block_on(endpoint.into().bind())
    }

    /// Serves metrics, health and the dashboard of `monitor` at `address`. Do not call it on a Tokio runtime.
    ///
    /// # Errors
    /// `Bind` for an address that cannot be bound.
    pub fn show(&self, address: impl Into<Address>, monitor: Monitor) -> Result<HttpServer> {
        self.runtime().block_on(address.into().show("http", monitor))
    }

    /// Returns a function that serves the tables passed to it: at `first` for the first call and at `then`, if given,
    /// for later calls. Log messages refer to the tables as `what`.
    #[must_use]
    pub fn serving(
        &self,
        first: Bound,
        then: Option<Endpoint>,
        options: ServerOptions,
        what: &'static str,
    ) -> Serve {
        let (handle, first) = (self.runtime().handle().clone(), Mutex::new(Some(first)));
        Arc::new(move |engine| {
            let bound = first.lock().unwrap_or_else(PoisonError::into_inner).take();
            let (engine, options, then) = (engine.clone(), options.clone(), then.clone());
            handle.spawn(async move {
                let bound = match (bound, then) {
                    (Some(bound), _) => Ok(bound),
                    (None, Some(endpoint)) => endpoint.bind().await,
                    (None, None) => return,
                };
                let served = match bound {
                    Ok(bound) => bound.serve(engine, options, std::future::pending()).await,
                    Err(error) => Err(std::io::Error::other(error)),
                };
                if let Err(error) = served {
                    tracing::warn!(target: "relive::server", "{what} are no longer served: {error}");
                }
            });
        })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.runtime.take().into_iter().for_each(Runtime::shutdown_background);
    }
}
