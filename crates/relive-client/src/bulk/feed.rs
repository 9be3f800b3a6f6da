//! Batches of a server, as seen by who takes them.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::task::JoinHandle;

use super::connection;
use super::shared::{Shared, Taken};
use crate::batch::SampleBatch;
use crate::client::Client;
use crate::give_up::GiveUp;
use crate::{Result, Sample};

/// A connection that fetches batches, and the batches it fetched. Dropping it ends the connection.
pub(crate) struct BulkFeed {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
    give_up: GiveUp,
    client: Client,
}

/// What comes next.
pub(crate) enum Next {
    Batch(Result<SampleBatch>),
    End,
    /// The server cannot be reached this way. With the beginning of a batch that has come nevertheless.
    NoWay(Vec<Sample>),
}

impl BulkFeed {
    /// A connection that asks for `ahead` batches before they are taken.
    pub(crate) fn new(
        client: Client,
        table: &str,
        batch_size: u32,
        ahead: u64,
        max_batches: Option<u64>,
        patience: Duration,
    ) -> BulkFeed {
        let shared = Arc::new(Shared::new(table, ahead, max_batches, patience));
        let task = tokio::spawn(connection::run(Arc::clone(&shared), client.clone(), batch_size));
        BulkFeed { shared, task, give_up: GiveUp::default(), client }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Batches that have come, and batches that were asked for and have not.
    pub(crate) fn counts(&self) -> (usize, usize) {
        self.shared.counts()
    }

    /// Samples of a batch that is not whole.
    pub(crate) fn samples_at_hand(&self) -> usize {
        self.shared.samples_at_hand()
    }

    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        match self.shared.take(cx.waker()) {
            Taken::Batch(batch) => {
                self.give_up.forget();
                Poll::Ready(Next::Batch(Ok(batch)))
            }
            Taken::NoMore => Poll::Ready(Next::End),
            Taken::NoWay(samples) => Poll::Ready(Next::NoWay(samples)),
            Taken::Error(error) => Poll::Ready(Next::Batch(Err(error))),
            Taken::Nothing { give_up_at } => {
                self.give_up.poll(give_up_at, cx).map(|()| Next::Batch(Err(self.shared.unavailable())))
            }
        }
    }
}

impl Drop for BulkFeed {
    fn drop(&mut self) {
        self.task.abort();
    }
}
