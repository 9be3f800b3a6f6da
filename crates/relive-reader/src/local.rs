//! Samples of a table of this process: the table is asked directly, and only for what the caller wants.

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

/// A table, and the request that it has not answered yet.
#[derive(Debug)]
pub(crate) struct LocalFeed {
    table: TableHandle,
    name: Arc<str>,
    /// How this reader is called among the table's waiters.
    who: Arc<str>,
    asked: Option<SampleFuture>,
    /// Samples that the request is for.
    asked_samples: usize,
}

impl LocalFeed {
    pub(crate) fn new(table: TableHandle, who: Arc<str>) -> LocalFeed {
        LocalFeed { name: table.name().into(), table, who, asked: None, asked_samples: 0 }
    }

    pub(crate) fn table(&self) -> &TableHandle {
        &self.table
    }

    /// Samples asked for that have not come.
    pub(crate) fn in_flight(&self) -> usize {
        self.asked_samples
    }

    /// Gives at least one and at most `limit` samples. A request that waits already goes on waiting, with the limit
    /// and the timeout that it began with.
    ///
    /// A wait with a timeout needs a Tokio runtime.
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

    /// [`poll_answer`](Self::poll_answer), with the samples at the end of `into`.
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

    /// Takes a waiting request back. Gives the samples that were taken for it in this very moment, so that none is
    /// lost.
    pub(crate) fn take_back(&mut self) -> Vec<Sampled> {
        self.asked_samples = 0;
        self.asked.take().map(SampleFuture::withdraw).unwrap_or_default()
    }

    /// [`take_back`](Self::take_back), with the samples at the end of `into`.
    pub(crate) fn withdraw(&mut self, into: &mut VecDeque<Sample>) {
        let taken = self.take_back();
        into.extend(taken.into_iter().map(|sampled| Sample::stored(sampled, &self.name)));
    }
}
