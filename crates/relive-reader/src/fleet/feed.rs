//! Samples from many servers, as seen by the reader.
//!
//! A *credit* is the right to request one sample. For each credit, a server is drawn ([`draw`]) before the request, so no
//! sample is fetched without being used. Samples are handed out in the order of the draws ([`DrawOrder`]), as if all items
//! were in one table. A server that delivers nothing for a while is no longer waited for. If a server is unreachable, or
//! delivers nothing while others are idle, its requests are withdrawn and servers are drawn again for them.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::SysRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use relive_connection::{Error, ErrorKind, Result, SAMPLE_TIMEOUT, Timer};
use relive_fleet::{Fleet, Member};
use tokio::sync::watch;
use tokio::time::Instant;

use super::lane::{Lane, LaneOutput, LaneResult, at};
use super::mixture::{draw, weights};
use super::order::DrawOrder;
use crate::options::SamplerOptions;
use crate::samples::Sample;

/// The number of requests for new samples in the time in which as many samples as the capacity are taken.
const DRAWS_PER_CAPACITY: usize = 4;

/// How long the first draw waits for sizes. For servers that take longer, the draw uses the previously reported size.
const MAX_WAIT_FOR_SIZES: Duration = Duration::from_millis(200);

/// Reads one table from all servers.
pub(crate) struct FleetFeed {
    fleet: Arc<Fleet>,
    table: String,
    options: SamplerOptions,
    patience: Duration,
    credit_batch: usize,
    /// Draws ignore sizes from before this moment. `None` once newer sizes are known.
    fresh_from: Option<Instant>,
    lanes: Vec<Lane>,
    order: DrawOrder<Sample>,
    /// The number of credits for which no server has been drawn yet.
    credits: usize,
    /// The number of samples until the end for which no server has been drawn yet, or `None` if there is no end.
    left: Option<usize>,
    rng: Xoshiro256PlusPlus,
    changes: Changes,
    /// Whether there was a change that is not yet reflected in the lanes.
    has_changed: bool,
    timer: Timer,
    unavailable_since: Option<Instant>,
    /// The time since which rate limiters have been holding samples back, if requests have moved to another server
    /// since then. Each server counts only the time since its own request.
    held_since: Option<Instant>,
    /// The last error of a rate limiter that timed out.
    late: Option<Error>,
    failure: Option<Error>,
}

impl FleetFeed {
    /// Creates a reader that may request `credits` samples at once.
    pub(crate) fn new(
        fleet: &Arc<Fleet>,
        table: &str,
        options: &SamplerOptions,
        credits: usize,
        patience: Duration,
    ) -> Result<FleetFeed> {
        let rng = Xoshiro256PlusPlus::try_from_rng(&mut SysRng).map_err(|error| {
            Error::new(
                ErrorKind::Internal,
                format!("cannot get random numbers for draws from the system: {error}"),
            )
        })?;
        let fresh_from = Some(Instant::now());
        fleet.members().iter().for_each(|server| server.refresh_now());
        Ok(FleetFeed {
            table: table.to_owned(),
            left: options.max_samples,
            options: options.of_a_lane(fleet.members().len()),
            patience,
            credit_batch: (options.capacity() / DRAWS_PER_CAPACITY).max(1),
            fresh_from,
            lanes: Vec::new(),
            order: DrawOrder::default(),
            credits,
            rng,
            changes: Changes::new(fleet.watch()),
            has_changed: false,
            timer: Timer::default(),
            unavailable_since: None,
            held_since: None,
            late: None,
            failure: None,
            fleet: Arc::clone(fleet),
        })
    }

    pub(crate) fn table(&self) -> &str {
        &self.table
    }

    /// Returns how many credits should be handed back together.
    pub(crate) fn credit_batch(&self) -> usize {
        self.credit_batch
    }

    /// Allows the feed to request the given number of additional samples.
    pub(crate) fn give_back(&mut self, credits: usize) {
        self.credits += credits;
        let now = Instant::now();
        if self.may_draw(now) {
            self.distribute_credits(now);
        }
    }

    /// Returns the number of samples that have arrived but have not been taken, and the number of samples that have
    /// been requested but have not arrived.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let sum = |sum: (usize, usize), one: (usize, usize)| (sum.0 + one.0, sum.1 + one.1);
        self.lanes.iter().map(Lane::counts).fold((self.order.arrived(), 0), sum)
    }

    /// Records that nobody waits for a sample at the moment.
    pub(crate) fn caller_left(&self) {
        self.lanes.iter().for_each(Lane::caller_left);
    }

    /// Hands credits back and appends all available samples to `into`. Returns `None` after the last sample.
    pub(crate) fn poll_take(
        &mut self,
        credits: usize,
        into: &mut VecDeque<Sample>,
        cx: &mut Context<'_>,
    ) -> Poll<LaneResult> {
        self.credits += credits;
        let polled = self.poll_lanes(into, cx);
        if polled.is_ready() {
            // One lane ended the wait for all of them.
            self.caller_left();
        }
        polled
    }

    fn poll_lanes(&mut self, into: &mut VecDeque<Sample>, cx: &mut Context<'_>) -> Poll<LaneResult> {
        if let Some(failure) = &self.failure {
            return Poll::Ready(Some(Err(failure.clone())));
        }
        loop {
            self.has_changed |= self.changes.poll(cx);
            if self.has_changed {
                // Delivers samples that have arrived, regardless of the state of their server.
                if let Some(given) = self.give(into, cx) {
                    return given;
                }
                self.has_changed = false;
                self.update_lanes();
            }
            let now = Instant::now();
            if self.may_draw(now) {
                self.distribute_credits(now);
                let unspent = self.credits;
                if let Some(given) = self.give(into, cx) {
                    return given;
                }
                if self.is_over() {
                    return Poll::Ready(None);
                }
                if self.redraw(now) || self.credits > unspent {
                    continue;
                }
            }
            let wake_at = match self.unavailable_deadline(now) {
                Err(error) => return Poll::Ready(Some(Err(error))),
                Ok(wake_at) => wake_at,
            };
            if self.timer.poll(wake_at, cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Appends the samples that have arrived to `into`, for a caller that takes no further samples.
    pub(crate) fn take_arrived(&mut self, into: &mut VecDeque<Sample>, cx: &mut Context<'_>) {
        // The caller has already received the reason why no more samples arrived.
        let _ = self.collect(cx);
        self.order.hand_out(into, |_| true);
    }

    /// Appends the samples that have arrived to `into`, in the order of their draws. Returns `None` if there are none.
    fn give(&mut self, into: &mut VecDeque<Sample>, cx: &mut Context<'_>) -> Option<Poll<LaneResult>> {
        if let Err(error) = self.collect(cx) {
            self.order.hand_out(into, |_| true);
            return Some(Poll::Ready(Some(Err(error))));
        }
        let (before, now) = (into.len(), Instant::now());
        let is_stalled = |number| {
            let of_server = self.lanes.iter().find(|lane| lane.server.number() == number);
            of_server.is_none_or(|lane| lane.is_stalled(now))
        };
        self.order.hand_out(into, is_stalled);
        if into.len() == before {
            return None;
        }
        self.lanes.iter_mut().for_each(|lane| lane.timed_out = false);
        (self.unavailable_since, self.held_since) = (None, None);
        self.timer.clear();
        Some(Poll::Ready(Some(Ok(()))))
    }

    /// Returns whether the servers and sizes for draws are known. The sizes must not be older than the start of
    /// reading, so that they include all items confirmed before it.
    fn may_draw(&mut self, now: Instant) -> bool {
        let Some(from) = self.fresh_from else { return true };
        let servers = self.fleet.members();
        let is_stale = |server: &Arc<Member>| server.is_up() && !server.is_known_since(from);
        if !self.fleet.is_settled() || now < from + MAX_WAIT_FOR_SIZES && servers.iter().any(is_stale) {
            return false;
        }
        self.fresh_from = None;
        self.update_lanes();
        true
    }

    fn is_over(&self) -> bool {
        self.left == Some(0)
            && self.order.arrived() == 0
            && self.lanes.iter().all(|lane| lane.outstanding == 0)
    }

    /// Updates the lanes from the servers and the state of their tables.
    fn update_lanes(&mut self) {
        let servers = self.fleet.members();
        let is_listed = |lane: &Lane| servers.iter().any(|server| server.number() == lane.server.number());
        for place in self.places(|lane| !lane.server.is_up() || !is_listed(lane)) {
            self.take_back(place);
        }
        self.lanes.retain(is_listed);
        for server in servers.iter() {
            match self.lanes.iter_mut().find(|lane| lane.server.number() == server.number()) {
                Some(lane) => lane.take_over(server.facts(&self.table)),
                None => self.lanes.push(Lane::new(Arc::clone(server), &self.table)),
            }
        }
    }

    /// Draws a server for each credit, and requests a sample from it.
    fn distribute_credits(&mut self, now: Instant) {
        let samples = self.left.map_or(self.credits, |left| left.min(self.credits));
        if samples == 0 || self.waits_for_credits(now) {
            return;
        }
        let open: Vec<usize> = self.places(|lane| lane.is_open(now));
        let willing: Vec<usize> =
            open.iter().copied().filter(|place| !self.is_stalled(*place, now)).collect();
        let chosen = if willing.is_empty() { open } else { willing };
        let weights = self.weights_of(&chosen);
        let drawn: Option<Vec<usize>> = (0..samples).map(|_| draw(&weights, &mut self.rng)).collect();
        let Some(drawn) = drawn else { return };
        let mut shares = vec![0_usize; chosen.len()];
        for drawn in drawn {
            let lane = chosen.get(drawn).and_then(|place| self.lanes.get(*place));
            if let Some((share, lane)) = shares.get_mut(drawn).zip(lane) {
                *share += 1;
                self.order.draw(lane.server.number());
            }
        }
        self.credits -= samples;
        self.left = self.left.map(|left| left - samples);
        let runtime = self.fleet.runtime();
        let _inside = runtime.enter();
        for (place, share) in chosen.into_iter().zip(shares).filter(|(_, share)| *share > 0) {
            if let Some(lane) = self.lanes.get_mut(place) {
                lane.ask(&self.table, &self.options, share);
            }
        }
    }

    /// Returns whether more credits will come back soon, so that a request can be made for all of them. Since samples are
    /// handed out in the order of their draws, a caller often takes only a few at once.
    fn waits_for_credits(&self, now: Instant) -> bool {
        let enough = self.left.map_or(self.credit_batch, |left| left.min(self.credit_batch));
        let is_coming = |lane: &Lane| lane.outstanding > 0 && !lane.is_stalled(now);
        self.credits < enough && self.lanes.iter().any(is_coming)
    }

    fn places(&self, wanted: impl Fn(&Lane) -> bool) -> Vec<usize> {
        self.lanes.iter().enumerate().filter(|(_, lane)| wanted(lane)).map(|(place, _)| place).collect()
    }

    fn is_stalled(&self, place: usize, now: Instant) -> bool {
        self.lanes.get(place).is_some_and(|lane| lane.is_stalled(now))
    }

    fn weights_of(&self, places: &[usize]) -> Vec<f64> {
        let lanes = places.iter().filter_map(|place| self.lanes.get(*place));
        let tables: Vec<_> = lanes.map(|lane| (lane.facts.size, lane.weight_per_item)).collect();
        weights(&tables)
    }

    /// Takes the samples that have arrived from the lanes.
    fn collect(&mut self, cx: &mut Context<'_>) -> Result<()> {
        for place in 0..self.lanes.len() {
            let Some(lane) = self.lanes.get_mut(place) else { continue };
            let mut arrived = VecDeque::new();
            match lane.poll(&mut arrived, cx) {
                LaneOutput::Nothing => {}
                LaneOutput::Samples => {
                    let number = lane.server.number();
                    self.adjust_to_all(place, &mut arrived);
                    self.order.arrived_from(number).append(&mut arrived);
                }
                LaneOutput::TimedOut(error) => {
                    lane.timed_out = true;
                    self.late = Some(at(&lane.server, &error));
                    self.take_back(place);
                }
                LaneOutput::Away(error) => {
                    let server = Arc::clone(&lane.server);
                    self.take_back(place);
                    self.fleet.failed(&server, &error.to_string());
                }
                LaneOutput::Failed(error) => {
                    let error = at(&lane.server, &error);
                    self.failure = Some(error.clone());
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn take_back(&mut self, place: usize) {
        let Some(lane) = self.lanes.get_mut(place) else { return };
        let outstanding = lane.take_back();
        self.order.withdraw(lane.server.number());
        self.credits += outstanding;
        self.left = self.left.map(|left| left + outstanding);
    }

    /// Converts a server's probabilities and table size to those over all servers.
    fn adjust_to_all(&mut self, place: usize, samples: &mut VecDeque<Sample>) {
        let Some(lane) = self.lanes.get_mut(place) else { return };
        if let Some(newest) = samples.back() {
            lane.learn(newest.info());
        }
        let number = lane.server.number();
        let now = Instant::now();
        let parts = self.places(|lane| lane.takes_part(now));
        let weights = self.weights_of(&parts);
        let total: f64 = weights.iter().sum();
        let mine = parts.iter().position(|part| *part == place).and_then(|part| weights.get(part).copied());
        let share = mine.filter(|_| total > 0.0).map_or(1.0, |mine| mine / total);
        let others = parts.iter().filter(|part| **part != place).filter_map(|part| self.lanes.get(*part));
        let others: u64 = others.map(|lane| lane.facts.size).sum();
        for sample in samples {
            self.fleet.note_owner(sample.info().key, number);
            sample.scale_to_fleet(share, others);
        }
    }

    /// Withdraws requests from servers that deliver nothing, if other servers are idle. Returns whether there were any
    /// such requests.
    fn redraw(&mut self, now: Instant) -> bool {
        let owing = self.places(|lane| lane.outstanding > 0);
        let all_empty = self.lanes.iter().all(|lane| lane.facts.size == 0);
        let is_idle =
            |lane: &Lane| lane.outstanding == 0 && lane.is_open(now) && (all_empty || lane.facts.size > 0);
        let all_stalled = owing.iter().all(|place| self.is_stalled(*place, now));
        if owing.is_empty() || !all_stalled || !self.lanes.iter().any(is_idle) {
            return false;
        }
        let asked = owing.iter().filter_map(|place| self.lanes.get(*place)).map(Lane::requested_since).min();
        self.held_since = self.held_since.or(asked);
        for place in owing {
            self.take_back(place);
            if let Some(lane) = self.lanes.get_mut(place) {
                lane.pause_requests();
            }
        }
        true
    }

    /// Returns the time of the next check, or an error if the caller has waited long enough.
    fn unavailable_deadline(&mut self, now: Instant) -> Result<Option<Instant>> {
        let owes = self.lanes.iter().any(|lane| lane.outstanding > 0);
        if !owes
            && self.lanes.iter().any(|lane| lane.timed_out)
            && !self.lanes.iter().any(|lane| lane.is_open(now))
        {
            self.lanes.iter_mut().for_each(|lane| lane.timed_out = false);
            if let Some(late) = self.late.take() {
                return Err(late);
            }
        }
        let held_until = self.held_until();
        if held_until.is_some_and(|until| until <= now) {
            // The next wait starts with the full timeout.
            self.held_since = None;
            return Err(self.held_back());
        }
        if self.lanes.iter().any(|lane| lane.server.is_up()) {
            self.unavailable_since = None;
            let opens = self.lanes.iter().filter_map(Lane::opens_at);
            let stalls = self.lanes.iter().filter(|lane| lane.outstanding > 0).map(Lane::stalls_at);
            let sizes = self.fresh_from.map(|from| from + MAX_WAIT_FOR_SIZES);
            return Ok(opens.chain(stalls).chain(sizes).chain(held_until).filter(|at| *at > now).min());
        }
        let since = *self.unavailable_since.get_or_insert(now);
        let give_up_at = since.checked_add(self.patience);
        if give_up_at.is_some_and(|at| at <= now) {
            // The next wait starts with the full timeout.
            self.unavailable_since = None;
            return Err(self.no_server(self.patience));
        }
        Ok(give_up_at)
    }

    /// Returns the error for servers that are unreachable at the moment, for a caller that stops waiting.
    pub(crate) fn outage(&self) -> Option<Error> {
        self.unavailable_since.map(|since| self.no_server(since.elapsed()))
    }

    fn no_server(&self, waited: Duration) -> Error {
        let (table, why) = (&self.table, self.fleet.no_server_reason());
        Error::new(ErrorKind::Unavailable, format!("sample: table {table:?}: {why} (for {waited:?})"))
    }

    /// Returns the time at which the caller's wait for rate limiters ends.
    fn held_until(&self) -> Option<Instant> {
        self.held_since?.checked_add(self.options.rate_limiter_timeout?)
    }

    /// Returns the error of a rate limiter that timed out.
    fn held_back(&self) -> Error {
        let waited = self.options.rate_limiter_timeout.unwrap_or_default();
        let text = format!(
            "sample: table {:?}: {} (none of the rate limiters of {} servers has permitted a sample in {waited:?})",
            self.table,
            SAMPLE_TIMEOUT,
            self.lanes.len()
        );
        Error::new(ErrorKind::Timeout, text)
    }
}

/// Notifies a reader of changes to the servers.
struct Changes(Pin<Box<dyn Future<Output = watch::Receiver<u64>> + Send>>);

impl Changes {
    /// Completes at the first change.
    fn new(mut version: watch::Receiver<u64>) -> Changes {
        version.mark_changed();
        Changes(Box::pin(next(version)))
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> bool {
        let mut has_changed = false;
        while let Poll::Ready(version) = self.0.as_mut().poll(cx) {
            has_changed = true;
            self.0 = Box::pin(next(version));
        }
        has_changed
    }
}

async fn next(mut version: watch::Receiver<u64>) -> watch::Receiver<u64> {
    if version.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
    version
}
