//! A call of a table of many servers.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::sample_call::Wish;
use crate::deadline::Deadline;
use crate::many::{Many, ManyFeed};
use crate::{Error, ErrorKind, Result, Sample, SamplerOptions};

/// Its streams are tasks of the runtime that watches the servers; the caller's thread waits for them.
pub(super) struct ManyCall {
    many: Arc<Many>,
    feed: ManyFeed,
    wish: Wish,
    started: Instant,
    got: VecDeque<Sample>,
}

impl ManyCall {
    pub(super) fn new(many: &Arc<Many>, wish: Wish) -> Result<ManyCall> {
        let mut options = SamplerOptions::default()
            .max_samples(wish.samples)
            .max_in_flight_samples_per_worker(wish.samples);
        if let Some(timeout) = wish.timeout {
            options = options.rate_limiter_timeout(timeout);
        }
        options.validate()?;
        let patience = wish.timeout.unwrap_or(Duration::MAX);
        let feed = ManyFeed::new(many, &wish.table, &options, wish.samples, patience)?;
        Ok(ManyCall { many: Arc::clone(many), feed, wish, started: Instant::now(), got: VecDeque::new() })
    }

    pub(super) fn wish(&self) -> &Wish {
        &self.wish
    }

    pub(super) fn wait(&mut self, at_most: Duration) -> Option<Result<Vec<Sample>>> {
        let left = self.wish.timeout.map(|timeout| timeout.saturating_sub(self.started.elapsed()));
        let slice = left.map_or(at_most, |left| left.min(at_most));
        let many = Arc::clone(&self.many);
        let done = many.block_on(async { Deadline::after(slice).run(self.fill()).await });
        match done {
            Some(Err(error)) if self.got.is_empty() => Some(Err(error)),
            Some(_) => Some(Ok(self.got.drain(..).collect())),
            None if left.is_some_and(|left| left <= at_most) => Some(self.give_up()),
            None => None,
        }
    }

    /// Waits until all samples are there, or no more come.
    async fn fill(&mut self) -> Result<()> {
        while self.got.len() < self.wish.samples {
            match poll_fn(|cx| self.feed.poll_take(0, &mut self.got, cx)).await {
                Some(taken) => taken?,
                None => break,
            }
        }
        Ok(())
    }

    /// The end of a call whose time is up: with the samples that there are.
    fn give_up(&mut self) -> Result<Vec<Sample>> {
        if !self.got.is_empty() {
            return Ok(self.got.drain(..).collect());
        }
        let (table, waited) = (&self.wish.table, self.started.elapsed());
        let text = format!(
            "sample: Timeout exceeded: no server of {} gave samples of table {table:?} within {waited:?}",
            self.many.text()
        );
        Err(Error::new(ErrorKind::Timeout, text))
    }
}
