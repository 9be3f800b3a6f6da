//! A call to a table on a server.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use relive_connection::{
    Backoff, Connection, Error, ErrorKind, HEALTHY_LIFE, Result, is_transient_status, status_error,
};
use relive_wire::codec;
use relive_wire::reverb::{SampleStreamRequest, Timeout};
use tokio::time::{Instant, sleep_until, timeout_at};
use tonic::Status;

use super::own::{IdleStreams, LentStream};
use super::stream::Exchange;
use crate::options::Requested;
use crate::outage::no_server;
use crate::samples::Sample;
use crate::stream::StreamEnd;

/// How much later than the server's rate limiter the client times out, so that the server's own error can arrive.
pub(crate) const GRACE: Duration = Duration::from_secs(1);

/// How long before its timeout a call tries once more to reach a server.
const LAST_ATTEMPT: Duration = Duration::from_millis(100);

/// The longest wait. Some systems cannot represent later times.
const FAR: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

pub(super) struct RemoteCall {
    connection: Connection,
    idle: Arc<IdleStreams>,
    /// The connection of this call, or `None` before the first wait.
    stream: Option<LentStream>,
    progress: Progress,
}

/// The progress of a call.
pub(super) struct Progress {
    requested: Requested,
    started: Instant,
    got: VecDeque<Sample>,
    backoff: Backoff,
    /// How long a server may be unreachable, or `None` for no limit.
    patience: Option<Duration>,
    /// The reason why there is no stream, and the time of the next attempt to open a stream.
    last_error: Option<(Status, Instant)>,
    /// The time since which there has been no stream.
    away_since: Option<Instant>,
}

impl RemoteCall {
    pub(super) fn new(connection: Connection, idle: Arc<IdleStreams>, requested: Requested) -> RemoteCall {
        RemoteCall {
            connection,
            idle,
            stream: None,
            progress: Progress::new(requested, VecDeque::new(), None),
        }
    }

    pub(super) fn requested(&self) -> &Requested {
        &self.progress.requested
    }

    pub(super) fn wait(&mut self, at_most: Duration) -> Option<Result<Vec<Sample>>> {
        let stream = match self.stream.take() {
            Some(stream) => stream,
            None => match LentStream::take(&self.idle, self.connection.channels()) {
                Ok(stream) => stream,
                Err(error) => return Some(Err(error)),
            },
        };
        let stream = self.stream.insert(stream);
        let progress = &mut self.progress;
        progress.end_outage_after(stream.life());
        let until = Instant::now() + at_most.min(FAR);
        let give_up = progress.give_up_at();
        let done = stream.drive(|exchange| async {
            let until = give_up.map_or(until, |at| at.min(until));
            timeout_at(until, progress.run(exchange)).await.ok()
        });
        if done.is_none() && give_up.is_some_and(|at| at <= Instant::now()) {
            let error = self.progress.no_answer();
            return Some(self.progress.end(error));
        }
        done
    }
}

impl Progress {
    /// Creates the progress of a call that already has some of its samples.
    pub(super) fn new(requested: Requested, got: VecDeque<Sample>, patience: Option<Duration>) -> Progress {
        let (started, backoff) = (Instant::now(), Backoff::default());
        Progress { requested, started, got, backoff, patience, last_error: None, away_since: None }
    }

    /// Returns the samples that have arrived.
    pub(super) fn got(&mut self) -> &mut VecDeque<Sample> {
        &mut self.got
    }

    /// Returns the time at which to give up. A reachable server reports the limiter's timeout itself.
    pub(super) fn give_up_at(&self) -> Option<Instant> {
        let grace = if self.last_error.is_some() { Duration::ZERO } else { GRACE };
        let late = self
            .requested
            .timeout
            .and_then(|timeout| self.started.checked_add(timeout.saturating_add(grace)));
        let away =
            self.away_since.zip(self.patience).and_then(|(since, patience)| since.checked_add(patience));
        [late, away].into_iter().flatten().min()
    }

    async fn run(&mut self, exchange: Exchange<'_>) -> Result<Vec<Sample>> {
        match self.fill(exchange).await {
            Ok(()) => Ok(self.got.drain(..).collect()),
            Err(error) => self.end(error),
        }
    }

    /// Sends requests and receives until all samples have arrived. Dropping the future loses nothing.
    pub(super) async fn fill(&mut self, mut exchange: Exchange<'_>) -> Result<()> {
        while self.got.len() < self.requested.samples {
            if let Some((_, again)) = &self.last_error
                && exchange.outstanding() == 0
            {
                sleep_until(*again).await;
            }
            if exchange.outstanding() == 0 {
                let missing = self.requested.samples - self.got.len();
                exchange.ask(missing, self.request(missing));
            }
            let Err(end) = exchange.receive(&mut self.got).await else {
                (self.last_error, self.away_since) = (None, None);
                continue;
            };
            let life = exchange.close();
            match end {
                StreamEnd::Status(status) if is_transient_status(&status) => {
                    if self.record_failure(status, life) {
                        return Err(self.no_answer());
                    }
                }
                StreamEnd::Status(status) => return Err(status_error("sample", status)),
                StreamEnd::Permanent(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Ends an outage if a stream was open for at least `HEALTHY_LIFE`. It need not have sent anything, because some
    /// servers send nothing before the first sample.
    fn end_outage_after(&mut self, life: Duration) {
        if life >= HEALTHY_LIFE {
            (self.last_error, self.away_since) = (None, None);
        }
    }

    /// Records that there is no stream, after one that was open for `life`, and the time of the next attempt: after the
    /// usual wait, or earlier, shortly before the call times out. Returns whether it has timed out.
    fn record_failure(&mut self, status: Status, life: Duration) -> bool {
        tracing::debug!(%status, "sample stream broke");
        self.end_outage_after(life);
        let now = Instant::now();
        let again = now + self.backoff.wait_after(life);
        self.last_error = Some((status, again));
        self.away_since.get_or_insert(now);
        let Some(end) = self.give_up_at() else { return false };
        let last = end.checked_sub(LAST_ATTEMPT).filter(|last| *last > now).unwrap_or(end);
        if let Some((_, next)) = &mut self.last_error {
            *next = again.min(last);
        }
        end <= now
    }

    fn request(&self, samples: usize) -> SampleStreamRequest {
        let left = self.requested.timeout.map(|timeout| timeout.saturating_sub(self.started.elapsed()));
        let milliseconds = left.map_or(-1, |left| i64::try_from(left.as_millis()).map_or(-1, |ms| ms.max(1)));
        SampleStreamRequest {
            table: self.requested.table.clone(),
            num_samples: i64::try_from(samples).unwrap_or(i64::MAX),
            rate_limiter_timeout: Some(Timeout { milliseconds }),
            relive_codecs: codec::known(),
            ..SampleStreamRequest::default()
        }
    }

    /// Returns the message that withdraws the previous request on the stream.
    pub(super) fn take_back_request(&self) -> SampleStreamRequest {
        let table = self.requested.table.clone();
        SampleStreamRequest { table, relive_take_back: true, ..SampleStreamRequest::default() }
    }

    /// Ends a call. If it timed out, returns the samples that have arrived.
    fn end(&mut self, error: Error) -> Result<Vec<Sample>> {
        let is_late = matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Unavailable);
        if is_late && !self.got.is_empty() { Ok(self.got.drain(..).collect()) } else { Err(error) }
    }

    /// Returns the error for a server that did not answer in time.
    pub(super) fn no_answer(&self) -> Error {
        let (table, waited) = (&self.requested.table, self.started.elapsed());
        match &self.last_error {
            Some((status, _)) => no_server(table, waited, status.message()),
            None => {
                let text = format!("sample: Deadline Exceeded after {waited:?}: the server did not answer");
                Error::new(ErrorKind::Timeout, text)
            }
        }
    }
}
