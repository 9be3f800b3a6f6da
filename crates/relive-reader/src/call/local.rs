//! A call to a table in this process.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use relive_connection::{Result, engine_error};
use relive_engine::{EngineError, TableHandle};

use crate::local::LocalFeed;
use crate::options::Requested;
use crate::samples::Sample;

pub(super) struct LocalCall {
    table: TableHandle,
    feed: LocalFeed,
    requested: Requested,
    started: Instant,
    got: VecDeque<Sample>,
}

impl LocalCall {
    pub(super) fn new(table: TableHandle, who: Arc<str>, requested: Requested) -> LocalCall {
        let feed = LocalFeed::new(table.clone(), who);
        LocalCall { table, feed, requested, started: Instant::now(), got: VecDeque::new() }
    }

    pub(super) fn requested(&self) -> &Requested {
        &self.requested
    }

    pub(super) fn wait(&mut self, at_most: Duration) -> Option<Result<Vec<Sample>>> {
        // Most calls complete immediately and need no wake-up.
        if let Poll::Ready(done) = self.poll(&mut Context::from_waker(Waker::noop())) {
            return Some(done);
        }
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let until = Instant::now().checked_add(at_most);
        let deadline = self.requested.timeout.and_then(|timeout| self.started.checked_add(timeout));
        loop {
            if let Poll::Ready(done) = self.poll(&mut Context::from_waker(&waker)) {
                return Some(done);
            }
            let now = Instant::now();
            if deadline.is_some_and(|at| at <= now) {
                return Some(self.give_up());
            }
            if until.is_some_and(|at| at <= now) {
                return None;
            }
            match [until, deadline].into_iter().flatten().min() {
                Some(at) => thread::park_timeout(at - now),
                None => thread::park(),
            }
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Vec<Sample>>> {
        while self.got.len() < self.requested.samples {
            let missing = self.requested.samples - self.got.len();
            match self.feed.poll_take(missing, None, &mut self.got, cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) if !self.got.is_empty() => break,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(engine_error("sample", error))),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(self.got.drain(..).collect()))
    }

    /// Ends a call that timed out. Returns the samples that have arrived.
    fn give_up(&mut self) -> Result<Vec<Sample>> {
        self.feed.withdraw(&mut self.got);
        if !self.got.is_empty() {
            return Ok(self.got.drain(..).collect());
        }
        let reason = self.table.sample_shortfall();
        let reason = reason
            .map_or_else(|| "other requests were served first".to_owned(), |missing| missing.to_string());
        let (table, waited) = (self.table.name().to_owned(), self.started.elapsed());
        Err(engine_error("sample", EngineError::Timeout { table, waited, reason }))
    }
}

/// Wakes the waiting thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
