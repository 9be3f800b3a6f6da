//! Samples of a server: the streams that fetch them, as seen by who takes them.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep, sleep_until};

use super::shared::{Shared, Taken};
use super::{Sample, SamplerOptions, worker};
use crate::client::Remote;
use crate::{Error, Result};

/// Workers that fetch samples, and the samples they fetched. Dropping it ends their streams.
pub(crate) struct RemoteFeed {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    give_up: Option<Pin<Box<Sleep>>>,
}

impl RemoteFeed {
    /// Workers that may ask for `credits` samples at once, all of them together.
    pub(crate) fn new(
        remote: &Remote,
        table: &str,
        options: &SamplerOptions,
        credits: usize,
        unavailable_timeout: Duration,
    ) -> RemoteFeed {
        let shared = Arc::new(Shared::new(table, options, credits, unavailable_timeout));
        let spawn = |index| tokio::spawn(worker::run(Arc::clone(&shared), index, remote.channel()));
        let workers = (0..options.useful_workers()).map(spawn).collect();
        RemoteFeed { shared, workers, give_up: None }
    }

    pub(crate) fn table(&self) -> &str {
        self.shared.table()
    }

    /// How many credits are worth giving back at once.
    pub(crate) fn credit_batch(&self) -> usize {
        self.shared.credit_batch()
    }

    /// Lets the workers ask for so many samples more.
    pub(crate) fn give_back(&self, credits: usize) {
        self.shared.give_back(credits);
    }

    /// Samples that have come and were not taken, and samples asked for that have not come.
    pub(crate) fn counts(&self) -> (usize, usize) {
        self.shared.counts()
    }

    /// Gives credits back, and moves all samples there are to the end of `into`. None after the last sample.
    pub(crate) fn poll_take(
        &mut self,
        credits: usize,
        into: &mut VecDeque<Sample>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<()>>> {
        match self.shared.take(into, credits, cx.waker()) {
            Taken::Samples => {
                self.give_up = None;
                Poll::Ready(Some(Ok(())))
            }
            Taken::End => Poll::Ready(None),
            Taken::Error(error) => Poll::Ready(Some(Err(error))),
            Taken::Nothing { give_up_at } => self.poll_give_up(give_up_at, cx).map(|error| Some(Err(error))),
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

impl Drop for RemoteFeed {
    fn drop(&mut self) {
        self.workers.iter().for_each(JoinHandle::abort);
        self.shared.close();
    }
}
