//! Batches from a server, as seen by the reader.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use relive_connection::{Connection, Error, Result, Timer};
use tokio::task::JoinHandle;

use super::shared::{Shared, TakeResult};
use super::task;
use crate::samples::Sample;
use crate::samples::SampleBatch;

/// A connection that fetches batches, and the batches that it has fetched. Dropping this value ends the connection.
pub(crate) struct BulkFeed {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
    timer: Timer,
}

/// The next event of a feed.
pub(crate) enum Next {
    Batch(Result<SampleBatch>),
    End,
    /// The server cannot be reached over the bulk path. Contains the samples of an incomplete batch that have already
    /// arrived.
    BulkUnavailable(Vec<Sample>),
}

impl BulkFeed {
    /// Creates a connection that requests `ahead` batches in advance; with 0, it requests a batch only while a caller
    /// is waiting for it.
    pub(crate) fn new(
        connection: Connection,
        table: &str,
        batch_size: u32,
        ahead: u64,
        max_batches: Option<u64>,
        patience: Duration,
    ) -> BulkFeed {
        let shared = Arc::new(Shared::new(table, ahead, max_batches, patience));
        let runtime = connection.runtime();
        let task = runtime.spawn(task::run(Arc::clone(&shared), connection, batch_size));
        BulkFeed { shared, task, timer: Timer::default() }
    }

    /// Returns how long the server may be unreachable.
    pub(crate) fn patience(&self) -> Duration {
        self.shared.patience()
    }

    /// Returns the number of batches that have arrived, and the number of batches that have been requested but have not
    /// arrived.
    pub(crate) fn counts(&self) -> (usize, usize) {
        self.shared.counts()
    }

    /// Returns the number of samples of an incomplete batch.
    pub(crate) fn samples_at_hand(&self) -> usize {
        self.shared.samples_at_hand()
    }

    /// Returns the error for a server that is unreachable at the moment.
    pub(crate) fn outage(&self) -> Option<Error> {
        self.shared.outage()
    }

    /// Waits until a withdrawn request has ended. Returns samples if some have arrived in the meantime; otherwise an
    /// error with the condition that a sample was waiting for, empty if it is unknown.
    pub(crate) async fn withdrawn(&mut self) -> std::result::Result<Next, String> {
        match poll_fn(|cx| self.shared.poll_withdrawn(cx.waker())).await {
            Some(reason) => Err(reason),
            None => Ok(poll_fn(|cx| self.poll_next(cx)).await),
        }
    }

    /// Notes that the caller no longer waits for a batch. Without batches in advance, this withdraws the request; the
    /// next wait makes a new one.
    pub(crate) fn stop_waiting(&self) {
        self.shared.stop_waiting();
    }

    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        match self.shared.take(cx.waker()) {
            TakeResult::Batch(batch) => {
                self.timer.clear();
                Poll::Ready(Next::Batch(Ok(batch)))
            }
            TakeResult::NoMore => Poll::Ready(Next::End),
            TakeResult::BulkUnavailable(samples) => Poll::Ready(Next::BulkUnavailable(samples)),
            TakeResult::Error(error) => Poll::Ready(Next::Batch(Err(error))),
            TakeResult::Nothing { give_up_at } => {
                self.timer.poll(give_up_at, cx).map(|()| Next::Batch(Err(self.shared.unavailable())))
            }
        }
    }
}

impl Drop for BulkFeed {
    fn drop(&mut self) {
        self.task.abort();
    }
}
