//! The thread that answers, and its connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use super::Monitor;
use super::history::History;
use super::router;
use crate::limits::{HTTP_HEAD_TIMEOUT, MAX_HTTP_CONNECTIONS, MAX_HTTP_HEAD_BYTES};

/// Metrics, health and the dashboard of a server, on a thread of its own. Dropping it ends them.
///
/// There is no access control: whoever reaches the address can read names and numbers of the tables, and nothing of what is
/// in them. Nothing can be changed.
#[derive(Debug)]
pub struct HttpServer {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl HttpServer {
    /// Answers on `listener` with what `monitor` sees.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(listener: TcpListener, monitor: Monitor) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let listener = listener.into_std()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopping) = watch::channel(false);
        let run = move || {
            if let Err(error) = runtime.block_on(serve(listener, monitor, stopping)) {
                tracing::error!(%error, "metrics and dashboard ended");
            }
        };
        let thread = std::thread::Builder::new().name("relive-http".to_owned()).spawn(run)?;
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of metrics and dashboard panicked");
        }
    }
}

async fn serve(
    listener: std::net::TcpListener,
    monitor: Monitor,
    mut stopping: watch::Receiver<bool>,
) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let history = Arc::new(History::default());
    let router = router::router(&monitor, &history);
    let slots = Arc::new(Semaphore::new(MAX_HTTP_CONNECTIONS));
    tokio::spawn(history.keep(monitor));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopping.wait_for(|stop| *stop) => return Ok(()),
        };
        // A connection too many is closed at once: a scraper comes again, and memory stays bounded.
        match (accepted, Arc::clone(&slots).try_acquire_owned()) {
            (Ok((socket, peer)), Ok(slot)) => {
                let router = router.clone();
                tokio::spawn(async move {
                    if let Err(error) = answer(socket, router).await {
                        tracing::debug!(%peer, %error, "HTTP connection ended");
                    }
                    drop(slot);
                });
            }
            (Ok((_, peer)), Err(_)) => {
                tracing::warn!(%peer, limit = MAX_HTTP_CONNECTIONS, "too many HTTP connections");
            }
            (Err(error), _) => {
                tracing::debug!(%error, "HTTP accept failed");
                tokio::time::sleep(crate::limits::HTTP_ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn answer(socket: TcpStream, router: axum::Router) -> Result<(), hyper::Error> {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HTTP_HEAD_TIMEOUT).max_buf_size(MAX_HTTP_HEAD_BYTES);
    builder.serve_connection(TokioIo::new(socket), TowerToHyperService::new(router)).await
}
