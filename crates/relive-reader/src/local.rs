//! Samples from a table in this process, which are taken only when the caller requests them.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use relive_engine::limits::MAX_SAMPLES_PER_REQUEST;
use relive_engine::{EngineError, SampleFuture, SampleRequest, TableHandle};
use relive_table::Sampled;

use crate::samples::Sample;

/// A table and an outstanding request.
#[derive(Debug)]
pub(crate) struct LocalFeed {
    table: TableHandle,
    name: Arc<str>,
    /// The name by which this reader is listed among the table's waiters.
    who: Arc<str>,
    asked: Option<SampleFuture>,
    /// The number of requested samples.
    asked_samples: usize,
}

impl LocalFeed {
    pub(crate) fn new(table: TableHandle, who: Arc<str>) -> LocalFeed {
        LocalFeed { name: table.name().into(), table, who, asked: None, asked_samples: 0 }
    }

    pub(crate) fn table(&self) -> &TableHandle {
        &self.table
    }

    /// Returns the number of samples that have been requested but have not arrived.
    pub(crate) fn in_flight(&self) -> usize {
        self.asked_samples
    }

    /// Returns at least one and at most `limit` samples. A request that is already waiting continues with its original
    /// limit and timeout.
    ///
    /// A wait that has a timeout needs a Tokio runtime.
    pub(crate) fn poll_answer(
        &mut self,
        limit: usize,
        timeout: Option<Duration>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Vec<Sampled>, EngineError>> {
        let limit = limit.min(MAX_SAMPLES_PER_REQUEST);
        let asked = self.asked.get_or_insert_with(|| {
            self.asked_samples = limit;
            let who = Arc::clone(&self.who);
            self.table.sample(SampleRequest { limit, max_bytes: u64::MAX, timeout, who })
        });
        let answer = ready!(Pin::new(asked).poll(cx));
        (self.asked, self.asked_samples) = (None, 0);
        Poll::Ready(answer)
    }

    /// Like [`poll_answer`](Self::poll_answer), but appends the samples to `into`.
    pub(crate) fn poll_take(
        &mut self,
        limit: usize,
        timeout: Option<Duration>,
        into: &mut VecDeque<Sample>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), EngineError>> {
        let answer = ready!(self.poll_answer(limit, timeout, cx))?;
        into.extend(answer.into_iter().map(|sampled| Sample::stored(sampled, &self.name)));
        Poll::Ready(Ok(()))
    }

    /// Withdraws a waiting request. Returns the samples that were already taken for the request, so that none are lost.
    pub(crate) fn take_back(&mut self) -> Vec<Sampled> {
        self.asked_samples = 0;
        self.asked.take().map(SampleFuture::withdraw).unwrap_or_default()
    }

    /// Like [`take_back`](Self::take_back), but appends the samples to `into`.
    pub(crate) fn withdraw(&mut self, into: &mut VecDeque<Sample>) {
        let taken = self.take_back();
        into.extend(taken.into_iter().map(|sampled| Sample::stored(sampled, &self.name)));
    }
}
