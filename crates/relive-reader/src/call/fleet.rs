//! A call to a table on many servers.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, Instant};

use relive_connection::{Deadline, Error, ErrorKind, Result};
use relive_fleet::Fleet;

use crate::fleet::FleetFeed;
use crate::options::{Requested, SamplerOptions};
use crate::samples::Sample;

/// The streams are tasks on the runtime that watches the servers, and the caller's thread waits for them.
pub(super) struct FleetCall {
    fleet: Arc<Fleet>,
    feed: FleetFeed,
    requested: Requested,
    started: Instant,
    got: VecDeque<Sample>,
}

impl FleetCall {
    pub(super) fn new(fleet: &Arc<Fleet>, requested: Requested) -> Result<FleetCall> {
        let mut options = SamplerOptions::default()
            .max_samples(requested.samples)
            .max_in_flight_samples_per_worker(requested.samples);
        if let Some(timeout) = requested.timeout {
            options = options.rate_limiter_timeout(timeout);
        }
        options.validate()?;
        let patience = requested.timeout.unwrap_or(Duration::MAX);
        let feed = FleetFeed::new(fleet, &requested.table, &options, requested.samples, patience)?;
        Ok(FleetCall {
            fleet: Arc::clone(fleet),
            feed,
            requested,
            started: Instant::now(),
            got: VecDeque::new(),
        })
    }

    pub(super) fn requested(&self) -> &Requested {
        &self.requested
    }

    pub(super) fn wait(&mut self, at_most: Duration) -> Option<Result<Vec<Sample>>> {
        let left = self.requested.timeout.map(|timeout| timeout.saturating_sub(self.started.elapsed()));
        let slice = left.map_or(at_most, |left| left.min(at_most));
        let fleet = Arc::clone(&self.fleet);
        let done = fleet.block_on(async { Deadline::after(slice).run(self.fill()).await });
        match done {
            Some(Err(error)) if self.got.is_empty() => Some(Err(error)),
            Some(_) => Some(Ok(self.got.drain(..).collect())),
            None if left.is_some_and(|left| left <= at_most) => Some(self.give_up()),
            None => None,
        }
    }

    /// Waits until all samples have arrived, or no more will.
    async fn fill(&mut self) -> Result<()> {
        while self.got.len() < self.requested.samples {
            match poll_fn(|cx| self.feed.poll_take(0, &mut self.got, cx)).await {
                Some(taken) => taken?,
                None => break,
            }
        }
        Ok(())
    }

    /// Ends a call that timed out. Returns the samples that have arrived.
    fn give_up(&mut self) -> Result<Vec<Sample>> {
        if !self.got.is_empty() {
            return Ok(self.got.drain(..).collect());
        }
        let (table, waited) = (&self.requested.table, self.started.elapsed());
        let text = format!(
            "sample: Timeout exceeded: none of the servers {} returned samples of table {table:?} within {waited:?}",
            self.fleet.text()
        );
        Err(Error::new(ErrorKind::Timeout, text))
    }
}
