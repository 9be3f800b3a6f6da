//! The threads and settings of connections.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use relive_transport::tls::{ClientTls, ServerTls};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::error::{Error, ErrorKind, Result};

/// The interval at which a wait checks whether it was interrupted.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// How stores reach each other over a network, and how they authenticate.
#[derive(Clone)]
pub struct NetworkOptions {
    /// The token that connections present and a server requires. Without a token, every client that can reach the
    /// server can use it.
    pub token: Option<String>,
    /// A server's TLS settings; without them, connections are in plain text.
    pub server_tls: Option<ServerTls>,
    /// A connection's TLS settings; without them, it is in plain text.
    pub client_tls: Option<ClientTls>,
    /// How long a call waits for complete answers from other stores.
    pub patience: Duration,
    /// The number of serving threads.
    pub threads: usize,
    /// Called every 50 ms during a wait, in the waiting thread. If it returns true, the wait ends with an error of the
    /// kind `Interrupted`.
    pub interrupted: Option<fn() -> bool>,
}

impl NetworkOptions {
    /// Creates options for plain text without a token, 60 s of patience, and one thread.
    #[must_use]
    pub fn new() -> Self {
        Self {
            token: None,
            server_tls: None,
            client_tls: None,
            patience: Duration::from_secs(60),
            threads: 1,
            interrupted: None,
        }
    }
}

impl Default for NetworkOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Keeps the token out of logs.
impl fmt::Debug for NetworkOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (has_token, has_tls) = (self.token.is_some(), self.server_tls.is_some());
        let mut shown = f.debug_struct("NetworkOptions");
        shown.field("has_token", &has_token).field("has_server_tls", &has_tls);
        shown.field("patience", &self.patience).field("threads", &self.threads).finish_non_exhaustive()
    }
}

/// Threads and settings of connections to and from stores on other machines. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Network {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    options: NetworkOptions,
    /// `None` while the network is being dropped.
    runtime: Option<Runtime>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The last owner may be one of the runtime's own threads, which cannot wait for itself.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Network {
    /// Starts the threads.
    ///
    /// # Errors
    /// The patience or the number of threads is 0, the token is empty or longer than 1,024 bytes, or the system cannot
    /// start a thread.
    pub fn new(options: NetworkOptions) -> Result<Self> {
        if options.patience.is_zero() || options.threads == 0 {
            return Err(Error::invalid(format!(
                "a network needs a timeout above 0 and at least 1 thread, got {:?} and {} threads",
                options.patience, options.threads
            )));
        }
        if options.token.as_ref().is_some_and(|token| token.is_empty() || token.len() > MAX_TOKEN_BYTES) {
            return Err(Error::invalid(format!("the token must have 1 to {MAX_TOKEN_BYTES} bytes")));
        }
        let runtime = Builder::new_multi_thread()
            .worker_threads(options.threads)
            .thread_name("relive-gpu-rows")
            .enable_all()
            .build()
            .map_err(|error| Error::system("start the threads of a network", error))?;
        Ok(Self { inner: Arc::new(Inner { options, runtime: Some(runtime) }) })
    }

    pub(crate) fn options(&self) -> &NetworkOptions {
        &self.inner.options
    }

    pub(crate) fn handle(&self) -> &Handle {
        self.inner.runtime.as_ref().expect("there until it is dropped").handle()
    }

    /// Waits in this thread for the answers from other stores, for at most the network's patience. Errors name the
    /// operation `what`.
    pub(crate) fn wait<T: Send>(
        &self,
        what: &str,
        work: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let options = self.options();
        let handle = self.handle();
        let wait = within(options, what, work);
        if Handle::try_current().is_err() {
            return handle.block_on(wait);
        }
        // A thread that belongs to another runtime must not block on this one.
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().spawn_scoped(scope, || handle.block_on(wait));
            let thread =
                thread.map_err(|error| Error::system(format_args!("start a thread for {what}"), error))?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// The maximum length of a token, in bytes.
const MAX_TOKEN_BYTES: usize = 1024;

async fn within<T>(options: &NetworkOptions, what: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
    let mut work = std::pin::pin!(tokio::time::timeout(options.patience, work));
    loop {
        tokio::select! {
            done = &mut work => return done.unwrap_or_else(|_| {
                let patience = options.patience;
                Err(Error::unavailable(format!("{what} took longer than the timeout of {patience:?}")))
            }),
            () = tokio::time::sleep(ASK_EVERY) => {
                if options.interrupted.is_some_and(|ask| ask()) {
                    return Err(Error::new(ErrorKind::Interrupted, format!("{what} was interrupted")));
                }
            }
        }
    }
}
