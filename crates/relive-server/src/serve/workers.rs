//! The threads that serve connections.
//!
//! Each thread runs its own scheduler, and each connection stays on its thread. A request that does not have to wait is
//! read, handled and answered without waking another thread. Such a wake-up accounts for most of the cost of a small
//! request: with one scheduler for all threads, the same server spends about twice the time per sample
//! (docs/benchmarks.md).

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use super::connection::{self, IncomingConnection};
use super::load::Load;
use crate::services::Services;

/// How long the end of a thread waits for work that blocks: scans and resets of tables, which take about a second for
/// the largest tables, and reads from a disk, which may hang.
const BLOCKING_TIMEOUT: Duration = Duration::from_secs(30);

/// The threads, and their connections.
#[derive(Debug)]
pub(crate) struct Workers {
    workers: Vec<Worker>,
    connections: JoinSet<()>,
}

#[derive(Debug)]
struct Worker {
    scheduler: Handle,
    /// The load by the connections on this thread.
    load: Load,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Workers {
    pub(crate) fn start(count: usize) -> io::Result<Self> {
        let workers = (0..count.max(1)).map(Worker::start).collect::<io::Result<_>>()?;
        Ok(Self { workers, connections: JoinSet::new() })
    }

    /// Assigns a connection to the thread with the smallest load.
    pub(crate) fn serve(
        &mut self,
        incoming: IncomingConnection,
        services: Services,
        stopping: watch::Receiver<bool>,
    ) {
        let Some(worker) = self.workers.iter().min_by_key(|worker| worker.load.total()) else { return };
        let share = worker.load.add_connection();
        let serve = async move {
            let peer = Arc::clone(&incoming.peer);
            if let Err(error) = connection::serve(incoming, services, share, stopping).await {
                tracing::debug!(%peer, %error, "connection ended");
            }
        };
        self.connections.spawn_on(serve, &worker.scheduler);
    }

    /// Removes a connection that has ended, after waiting for one to end. If there are no connections, waits
    /// indefinitely.
    pub(crate) async fn reap(&mut self) {
        if self.connections.join_next().await.is_none() {
            std::future::pending::<()>().await;
        }
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Waits for the connections to end, drops the remaining ones after `timeout`, and then ends the threads.
    pub(crate) async fn drain(mut self, timeout: Duration) {
        let all_gone = async { while self.connections.join_next().await.is_some() {} };
        if tokio::time::timeout(timeout, all_gone).await.is_err() {
            tracing::info!(
                connections = self.connections.len(),
                ?timeout,
                "closed connections that did not end in time"
            );
            self.connections.shutdown().await;
        }
    }
}

impl Worker {
    fn start(number: usize) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let scheduler = runtime.handle().clone();
        let (end, ended) = oneshot::channel::<()>();
        // The channel closes when the server stops or the owner is gone.
        let run = move || {
            drop(runtime.block_on(ended));
            runtime.shutdown_timeout(BLOCKING_TIMEOUT);
        };
        let thread = std::thread::Builder::new().name(format!("relive-{number}")).spawn(run)?;
        Ok(Self { scheduler, load: Load::default(), end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("a worker thread panicked");
        }
    }
}
