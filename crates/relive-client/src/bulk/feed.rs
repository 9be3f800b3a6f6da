//! Batches of a server, as seen by who takes them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep, sleep_until};

use super::connection;
use super::shared::{Shared, Taken};
use crate::batch::SampleBatch;
use crate::client::Client;
use crate::{Error, Result};

/// A connection that fetches batches, and the batches it fetched. Dropping it ends the connection.
pub(crate) struct BulkFeed {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
    give_up: Option<Pin<Box<Sleep>>>,
    client: Client,
}

/// What comes next.
#[expect(clippy::large_enum_variant, reason = "all but always the large one, which is moved once")]
pub(crate) enum Next {
    Batch(Result<SampleBatch>),
    End,
    /// The server cannot be reached this way.
    NoWay,
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
        BulkFeed { shared, task, give_up: None, client }
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
                self.give_up = None;
                Poll::Ready(Next::Batch(Ok(batch)))
            }
            Taken::NoMore => Poll::Ready(Next::End),
            Taken::NoWay => Poll::Ready(Next::NoWay),
            Taken::Error(error) => Poll::Ready(Next::Batch(Err(error))),
            Taken::Nothing { give_up_at } => {
                self.poll_give_up(give_up_at, cx).map(|error| Next::Batch(Err(error)))
            }
        }
    }

    fn poll_give_up(&mut self, at: Option<Instant>, cx: &mut Context<'_>) -> Poll<Error> {
        let Some(at) = at else {
            self.give_up = None;
            return Poll::Pending;
        };
        let timer = self.give_up.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if timer.deadline() != at {
            timer.as_mut().reset(at);
        }
        std::task::ready!(timer.as_mut().poll(cx));
        self.give_up = None;
        Poll::Ready(self.shared.unavailable())
    }
}

impl Drop for BulkFeed {
    fn drop(&mut self) {
        self.task.abort();
    }
}
