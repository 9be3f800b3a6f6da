//! Samples from a server, as seen by the reader.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use relive_connection::{Connection, Error, Result, Timer};
use tokio::task::JoinHandle;

use super::shared::{Shared, TakeResult};
use super::worker;
use crate::options::SamplerOptions;
use crate::samples::Sample;

/// Workers that fetch samples, and the samples that they have fetched. Dropping this value ends their streams.
pub(crate) struct RemoteFeed {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    timer: Timer,
}

impl RemoteFeed {
    /// Creates workers that together may request `credits` samples at once.
    pub(crate) fn new(
        connection: &Connection,
        table: &str,
        options: &SamplerOptions,
        credits: usize,
        unavailable_timeout: Duration,
    ) -> RemoteFeed {
        RemoteFeed::start(connection, table, options, credits, unavailable_timeout, None)
    }

    /// Like [`new`](Self::new), but checks, after a server was unreachable, whether the server still has its previous
    /// content.
    pub(crate) fn watched(
        connection: &Connection,
        table: &str,
        options: &SamplerOptions,
        credits: usize,
        unavailable_timeout: Duration,
    ) -> RemoteFeed {
        let watched = Some(connection);
        RemoteFeed::start(connection, table, options, credits, unavailable_timeout, watched)
    }

    fn start(
        connection: &Connection,
        table: &str,
        options: &SamplerOptions,
        credits: usize,
        unavailable_timeout: Duration,
        watched: Option<&Connection>,
    ) -> RemoteFeed {
        let shared = Arc::new(Shared::new(table, options, credits, unavailable_timeout));
        let runtime = connection.runtime();
        let spawn = |index| {
            let worker = worker::run(Arc::clone(&shared), index, connection.channel(), watched.cloned());
            runtime.spawn(worker)
        };
        let workers = (0..options.useful_workers()).map(spawn).collect();
        RemoteFeed { shared, workers, timer: Timer::default() }
    }

    pub(crate) fn table(&self) -> &str {
        self.shared.table()
    }

    /// Returns how many credits should be handed back together.
    pub(crate) fn credit_batch(&self) -> usize {
        self.shared.credit_batch()
    }

    /// Allows the workers to request the given number of additional samples.
    pub(crate) fn give_back(&self, credits: usize) {
        self.shared.give_back(credits);
    }

    /// Returns the number of samples that have arrived but have not been taken, and the number of samples that have
    /// been requested but have not arrived.
    pub(crate) fn counts(&self) -> (usize, usize) {
        self.shared.counts()
    }

    /// Records that nobody waits for a sample at the moment.
    pub(crate) fn caller_left(&self) {
        self.shared.caller_left();
    }

    /// Returns the error for a server that is unreachable at the moment.
    pub(crate) fn outage(&self) -> Option<Error> {
        self.shared.outage()
    }

    /// Hands credits back and appends all available samples to `into`. Returns `None` after the last sample.
    pub(crate) fn poll_take(
        &mut self,
        credits: usize,
        into: &mut VecDeque<Sample>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<()>>> {
        match self.shared.take(into, credits, cx.waker()) {
            TakeResult::Samples => {
                self.timer.clear();
                Poll::Ready(Some(Ok(())))
            }
            TakeResult::End => Poll::Ready(None),
            TakeResult::Error(error) => Poll::Ready(Some(Err(error))),
            TakeResult::Nothing { give_up_at } => {
                self.timer.poll(give_up_at, cx).map(|()| Some(Err(self.shared.unavailable())))
            }
        }
    }
}

impl Drop for RemoteFeed {
    fn drop(&mut self) {
        self.workers.iter().for_each(JoinHandle::abort);
        self.shared.close();
    }
}
