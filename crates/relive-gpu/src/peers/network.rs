//! The threads and settings of connections.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use relive_transport::tls::{ClientTls, ServerTls};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::error::{Error, ErrorKind, Result};

/// How often a wait asks whether it is to go on.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// How stores reach each other over a network, and with what rights.
#[derive(Clone)]
pub struct NetworkOptions {
    /// What connections show, and what a server asks for; without one it is open to everybody who reaches it.
    pub token: Option<String>,
    /// How a server proves who it is; without it connections are in plain text.
    pub server_tls: Option<ServerTls>,
    /// Whom connections trust; without it they are in plain text.
    pub client_tls: Option<ClientTls>,
    /// How long a call waits for the stores of others: for the whole of their answers.
    pub patience: Duration,
    /// Threads that serve.
    pub threads: usize,
    /// Asked every 50 ms of a wait, in the thread that waits: true ends it with an error of the kind `Interrupted`.
    pub interrupted: Option<fn() -> bool>,
}

impl NetworkOptions {
    /// Plain text without a token, 60 s of patience, one thread.
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

/// The token stays out of logs.
impl fmt::Debug for NetworkOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (has_token, has_tls) = (self.token.is_some(), self.server_tls.is_some());
        let mut shown = f.debug_struct("NetworkOptions");
        shown.field("has_token", &has_token).field("has_server_tls", &has_tls);
        shown.field("patience", &self.patience).field("threads", &self.threads).finish_non_exhaustive()
    }
}

/// Threads and settings of connections to stores of other machines, and of those that come from there. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Network {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    options: NetworkOptions,
    /// `None` at the end.
    runtime: Option<Runtime>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Whoever drops it last may be one of its own threads, which cannot wait for themselves.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Network {
    /// Starts the threads.
    ///
    /// # Errors
    /// No patience, no threads, a token that is empty or longer than 1,024 bytes, or the system starts no thread.
    pub fn new(options: NetworkOptions) -> Result<Self> {
        if options.patience.is_zero() || options.threads == 0 {
            return Err(Error::invalid(format!(
                "a network with {:?} of patience and {} threads; it needs some of both",
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

    /// Waits for what other stores do, in this thread, for as long as the patience lasts. `what` is done in errors.
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
        // A thread of somebody's runtime must not wait in it.
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| handle.block_on(wait));
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// Most bytes of a token.
const MAX_TOKEN_BYTES: usize = 1024;

async fn within<T>(options: &NetworkOptions, what: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
    let mut work = std::pin::pin!(tokio::time::timeout(options.patience, work));
    loop {
        tokio::select! {
            done = &mut work => return done.unwrap_or_else(|_| {
                let patience = options.patience;
                Err(Error::unavailable(format!("{what} took longer than the patience of {patience:?}")))
            }),
            () = tokio::time::sleep(ASK_EVERY) => {
                if options.interrupted.is_some_and(|ask| ask()) {
                    return Err(Error::new(ErrorKind::Interrupted, format!("{what} was interrupted")));
                }
            }
        }
    }
}
