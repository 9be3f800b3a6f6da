//! The side of a run that learns, where its workers are processes.

use std::collections::BTreeMap;
use std::ops::RangeBounds;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use relive_client::blocking::Client;
use relive_flow::{Flow, Polled, Pull, Source, Tagged, Turn};

use super::job::{self, Now};
use super::lease::Lease;
use super::orders::{self, Order};
use super::results::{Reader, Told, What};
use super::weights::{Packed, Stamp};
use super::{Carried, Layouts, Registry};
use crate::contracts::WeightStore;
use crate::limits::NODE_GONE;
use crate::run::Stop;
use crate::run::identity::Identity;
use crate::watching::Roster;
use crate::{Result, RlError, state};

/// Time from one look for newer weights to the next; a look that finds some takes as long as it takes, and ten times that is waited then.
const PUBLISH_EVERY: Duration = Duration::from_millis(10);

/// How long a pull waits for a result before it gives way to others.
const SLICE: Duration = Duration::from_millis(20);

/// How long workers are waited for at the end, who may have been killed: they look at the job far more often.
const GOODBYE: Duration = Duration::from_secs(3);

/// The same of nodes: those that were killed are known to be gone before.
const GOODBYE_OF_NODES: Duration = NODE_GONE.saturating_mul(2);

/// When a round that was ordered is ordered again of those that have not made it: a worker that was killed has lost its order. One that joins in its
/// place gets it at once; this is for one that was cut off and comes back.
const ORDER_AGAIN_AFTER: Duration = Duration::from_secs(2);

/// Publishes weights and signs of life, and gets what the workers make.
pub(crate) struct Driver {
    client: Client,
    identity: Identity,
    weights: WeightStore,
    now: Mutex<Now>,
    /// Rounds so far, of all drivers of the run.
    round: AtomicU64,
    is_over: AtomicBool,
    /// Told when the run is to end early.
    stop: Stop,
    /// Processes with several workers each.
    nodes: Registry,
    /// How often each worker has joined the run without leaving it.
    members: Mutex<BTreeMap<u32, u32>>,
    /// What is shown of them.
    roster: Roster,
    /// Why it cannot publish any more.
    failed: Mutex<Option<RlError>>,
}

/// What a worker tells that a plan needs to know.
enum Heard<T> {
    /// Items, and the round that they were made for.
    Made { worker: u32, round: u64, items: Vec<T> },
    /// It has joined the run, maybe in the place of one that was killed.
    Joined { worker: u32 },
}

/// Publishes until it is dropped.
pub(crate) struct Publishing {
    driver: Arc<Driver>,
    thread: Option<JoinHandle<Lease>>,
}

impl Driver {
    /// Puts the job of a run with so many workers into its table; the first `started` of them are not those of nodes.
    ///
    /// # Errors
    /// The server is lost.
    pub(crate) fn new(
        client: &Client,
        identity: &Identity,
        weights: WeightStore,
        (started, workers, checkpoints): (usize, usize, u64),
        stop: &Stop,
    ) -> Result<Driver> {
        let follows = job::is_there(client)?;
        let before = if follows { job::get(client).ok().flatten().map_or(0, |job| job.now.epoch) } else { 0 };
        // Higher than those of any driver before, which results may come of still: there is no round each nanosecond.
        let epoch = rounds_from().max(before + 1);
        let now = Now { workers: workers as u64, checkpoints, epoch, ..Now::default() };
        job::put(client, identity, now, &|| !stop.is_stopped())?;
        Ok(Driver {
            client: client.clone(),
            identity: identity.clone(),
            weights,
            now: Mutex::new(now),
            round: AtomicU64::new(epoch),
            is_over: AtomicBool::new(false),
            stop: stop.clone(),
            nodes: Registry::new((started, workers), follows),
            members: Mutex::default(),
            roster: Roster::default(),
            failed: Mutex::new(None),
        })
    }

    /// What is shown of the workers.
    pub(crate) fn roster(&self) -> &Roster {
        &self.roster
    }

    /// Workers that the run has.
    pub(crate) fn workers(&self) -> usize {
        usize::try_from(self.now.lock().workers).unwrap_or(usize::MAX)
    }

    /// Whether a server that does not answer is waited for.
    fn goes_on(&self) -> bool {
        !self.stop.is_stopped() && !self.is_over.load(Ordering::Relaxed)
    }

    /// Puts the newest weights where workers and nodes find them, unless they are there; which they are.
    fn publish(&self) -> Result<Option<Stamp>> {
        let mut now = self.now.lock();
        if let Some(newer) = self.weights.newer_than(now.version) {
            let goes_on = || self.goes_on();
            let packed = Packed::of(&newer, now.epoch)?;
            packed.put(&self.client, &self.nodes.readers(), &goes_on)?;
            now.version = Some(newer.version());
            job::put(&self.client, &self.identity, *now, &goes_on)?;
        }
        Ok(now.stamp())
    }

    /// Processes with several workers each.
    pub(crate) fn nodes(&self) -> &Registry {
        &self.nodes
    }

    /// Tells the workers that the run is over. Where the tables are those of this process, it waits until they know.
    ///
    /// # Errors
    /// The server is lost.
    pub(crate) fn end(&self, waits: bool) -> Result<()> {
        let mut now = self.now.lock();
        now.is_over = true;
        job::put(&self.client, &self.identity, *now, &|| self.goes_on())?;
        drop(now);
        let since = Instant::now();
        let mut reader = Reader::new(&self.client)?;
        let has_workers = || !self.members.lock().is_empty() && since.elapsed() < GOODBYE;
        let has_nodes = || self.nodes.has_some() && since.elapsed() < GOODBYE_OF_NODES;
        while waits && (has_workers() || has_nodes()) {
            if let Some(told) = reader.next_within(SLICE)? {
                self.note(&told);
            }
            self.nodes.look(&self.client, &|| false)?;
        }
        Ok(())
    }

    /// Notes who joins and who leaves.
    fn note(&self, told: &Told) {
        if matches!(told.what, What::Joined { .. }) {
            self.roster.joined(told.worker);
        }
        self.nodes.note_worker(told.worker, told.what == What::Left);
        let mut members = self.members.lock();
        let joined = members.entry(told.worker).or_default();
        match told.what {
            What::Left => *joined = joined.saturating_sub(1),
            What::Joined { anew: true } => *joined = 1,
            What::Joined { anew: false } => *joined += 1,
            What::Made { .. } | What::Failed(_) => *joined = (*joined).max(1),
        }
        if told.what == (What::Joined { anew: false }) && *joined == 2 {
            tracing::warn!(
                "worker {} has joined again, as one does that was started anew; if the one before has not ended, two have the same number, and need \
                 different ones",
                told.worker
            );
        }
        if *joined == 0 {
            members.remove(&told.worker);
        }
    }

    /// What the next worker tells, none if none does in time.
    fn next<T: Carried>(&self, reader: &mut Option<Reader>, layouts: &Layouts) -> Result<Option<Heard<T>>> {
        let reader = match reader {
            Some(reader) => reader,
            place => place.insert(Reader::new(&self.client)?),
        };
        let Some(told) = reader.next_within(SLICE)? else { return Ok(None) };
        self.note(&told);
        match told.what {
            What::Made { round, items } => {
                let items = items.iter().map(|bytes| filled(bytes, layouts));
                Ok(Some(Heard::Made { worker: told.worker, round, items: items.collect::<Result<_>>()? }))
            }
            What::Failed(text) => Err(RlError::Worker { worker: told.worker, text }),
            What::Joined { .. } => Ok(Some(Heard::Joined { worker: told.worker })),
            What::Left => Ok(None),
        }
    }

    /// # Errors
    /// Why weights and signs of life are not published any more.
    pub(crate) fn check(&self) -> Result<()> {
        self.failed.lock().take().map_or(Ok(()), Err)
    }

    /// Publishes from now on, in the place of the learner that it has, or takes: that of a server of its own.
    ///
    /// # Errors
    /// Those of [`Lease::take_own`]; there is no thread to be had.
    pub(crate) fn published(self: Arc<Driver>, lease: Option<Lease>) -> Result<(Arc<Driver>, Publishing)> {
        let publishing = self.publishing(lease.map_or_else(|| Lease::take_own(&self.client), Ok)?)?;
        Ok((self, publishing))
    }

    /// Publishes weights and signs of life on a thread of its own.
    ///
    /// # Errors
    /// There is no thread to be had.
    fn publishing(self: &Arc<Driver>, mut lease: Lease) -> Result<Publishing> {
        let driver = Arc::clone(self);
        let work = move || {
            let mut pause = PUBLISH_EVERY;
            while !driver.is_over.load(Ordering::Relaxed) {
                std::thread::park_timeout(pause);
                let since = Instant::now();
                let looked =
                    driver.publish().and_then(|_| driver.nodes.look(&driver.client, &|| driver.goes_on()));
                if let Err(error) = looked.and_then(|()| lease.renew()) {
                    *driver.failed.lock() = Some(error);
                    break;
                }
                pause = PUBLISH_EVERY.max(since.elapsed() * 10);
            }
            lease
        };
        let thread = Builder::new().name("relive-rl-publish".to_owned()).spawn(work);
        let thread = thread.map_err(|error| RlError::file("a thread that publishes".as_ref(), error))?;
        Ok(Publishing { driver: Arc::clone(self), thread: Some(thread) })
    }

    /// What each worker makes in a round, in their order. A round is begun when it is asked for.
    pub(crate) fn rounds<T: Carried>(self: &Arc<Driver>, layouts: Layouts) -> Flow<Vec<T>> {
        self.nodes.fix();
        let driver = Arc::clone(self);
        let rounds = Rounds { driver, layouts, reader: None, begun: None };
        Flow::from_pull("rounds of workers", rounds).try_for_each(|round: Result<Vec<T>>| round)
    }

    /// What workers make, as it comes: lists of what came together.
    pub(crate) fn as_they_come<T: Carried>(self: &Arc<Driver>, layouts: Layouts) -> Flow<Vec<T>> {
        let driver = Arc::clone(self);
        let results = Flow::from_pull("workers", AsTheyCome { driver, layouts, reader: None });
        results.try_for_each(|result: Result<Vec<T>>| result)
    }
}

impl Publishing {
    /// Ends it; the lease, which is then to be released.
    pub(crate) fn end(mut self) -> Option<Lease> {
        self.stop()
    }

    fn stop(&mut self) -> Option<Lease> {
        self.driver.is_over.store(true, Ordering::Relaxed);
        let thread = self.thread.take()?;
        thread.thread().unpark();
        // A panic was printed; there is no lease then, and the next driver waits until it is silent.
        thread.join().ok()
    }
}

impl Drop for Publishing {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A round that was begun.
struct Round<T> {
    order: Order,
    made: Vec<Option<T>>,
    ordered: Instant,
}

struct Rounds<T> {
    driver: Arc<Driver>,
    layouts: Layouts,
    reader: Option<Reader>,
    begun: Option<Round<T>>,
}

impl<T: Carried> Rounds<T> {
    fn poll(&mut self) -> Result<Option<Vec<T>>> {
        if self.begun.is_none() {
            self.begun = Some(self.begin()?);
        }
        let (Some(begun), driver) = (&mut self.begun, &self.driver) else { return Ok(None) };
        if begun.ordered.elapsed() >= ORDER_AGAIN_AFTER {
            begun.ordered = Instant::now();
            driver.order(begun, ..)?;
        }
        let (worker, round, items) = match driver.next(&mut self.reader, &self.layouts)? {
            None => return Ok(None),
            // The one before it may have been killed with its order.
            Some(Heard::Joined { worker }) => {
                driver.order(begun, place(worker)..=place(worker))?;
                return Ok(None);
            }
            Some(Heard::Made { worker, round, items }) => (place(worker), round, items),
        };
        // What comes late is of a round that another has made, or of a driver before this.
        if round == begun.order.round
            && let Some(place @ None) = begun.made.get_mut(worker)
        {
            *place = items.into_iter().next();
        }
        if begun.made.iter().any(Option::is_none) {
            return Ok(None);
        }
        Ok(self.begun.take().map(|round| round.made.into_iter().flatten().collect()))
    }

    fn begin(&self) -> Result<Round<T>> {
        let driver = &self.driver;
        let weights = driver.publish()?;
        let weights = weights
            .ok_or(RlError::Order { call: "a round of workers", needs: "weights: a plan with a learner" })?;
        let order = Order { round: driver.round.fetch_add(1, Ordering::Relaxed), weights };
        let made = std::iter::repeat_with(|| None).take(driver.workers()).collect();
        let round = Round { order, made, ordered: Instant::now() };
        driver.order(&round, ..)?;
        Ok(round)
    }
}

impl Driver {
    /// Orders a round of those of some workers that have not made it.
    fn order<T>(&self, round: &Round<T>, of: impl RangeBounds<usize>) -> Result<()> {
        let made = round.made.iter().enumerate();
        let missing = made.filter(|(worker, made)| made.is_none() && of.contains(worker));
        let missing: Vec<usize> = missing.map(|(worker, _)| worker).collect();
        orders::give(&self.client, &missing, round.order, &|| self.goes_on())
    }
}

impl<T: Carried> Pull<Result<Vec<T>>> for Rounds<T> {
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<Result<Vec<T>>> {
        match self.poll().transpose() {
            Some(item) => Poll::Ready(Some(Ok(Tagged { item, source: None }))),
            None => again(turn),
        }
    }
}

struct AsTheyCome {
    driver: Arc<Driver>,
    layouts: Layouts,
    reader: Option<Reader>,
}

impl<T: Carried> Pull<Result<Vec<T>>> for AsTheyCome {
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<Result<Vec<T>>> {
        match self.driver.next(&mut self.reader, &self.layouts) {
            Ok(Some(Heard::Made { worker, items, .. })) => {
                Poll::Ready(Some(Ok(Tagged { item: Ok(items), source: Some(Source(worker)) })))
            }
            Ok(Some(Heard::Joined { .. }) | None) => again(turn),
            Err(error) => Poll::Ready(Some(Ok(Tagged { item: Err(error), source: None }))),
        }
    }
}

/// The place of a worker in a round.
fn place(worker: u32) -> usize {
    usize::try_from(worker).unwrap_or(usize::MAX)
}

/// Nothing came while it was waited for: others have their turn, and then it is asked again.
fn again<T>(turn: &mut Turn<'_>) -> Polled<T> {
    turn.wake_at(Instant::now());
    Poll::Pending
}

fn filled<T: Carried>(bytes: &[u8], layouts: &Layouts) -> Result<T> {
    let (mut item, mut visited) = (T::empty(layouts)?, Ok(()));
    state::restore("a result", bytes, |state| visited = item.visit(state))?;
    visited.map(|()| item)
}

/// Nanoseconds since 1970.
fn rounds_from() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use relive_engine::Engine;
    use relive_env::Environment;
    use relive_tensor::Tensor;

    use super::super::results::Results;
    use super::super::tables;
    use super::*;
    use crate::{Acted, Weights};

    fn driver() -> Driver {
        let engine =
            tables::beside_the_agents(1).fold(Engine::builder(), relive_engine::EngineBuilder::table);
        let client = Client::in_process(engine.build().unwrap()).unwrap();
        let spec = relive_env::make("catch/0", 1).unwrap().spec().clone();
        let identity = Identity::new(("none", Vec::new()), "catch/0", &spec, 1);
        Driver::new(&client, &identity, WeightStore::default(), (1, 1, 0), &Stop::new()).unwrap()
    }

    /// Members that are left where a worker has joined in these ways, one after the other, and one has left.
    fn left_after(joined: &[bool]) -> usize {
        let driver = driver();
        let joined = joined.iter().map(|anew| What::Joined { anew: *anew });
        for what in joined.chain([What::Left]) {
            driver.note(&Told { worker: 0, what });
        }
        driver.members.into_inner().len()
    }

    #[test]
    fn a_worker_that_takes_the_place_of_a_killed_one_is_the_only_one_of_its_number() {
        assert_eq!(left_after(&[false]), 0);
        assert_eq!(left_after(&[true, true]), 0);
        assert_eq!(left_after(&[false, false]), 1, "two of the same number");
    }

    #[test]
    fn a_worker_that_joins_gets_the_order_that_the_one_before_it_has_lost() {
        let driver = Arc::new(driver());
        driver.weights.publish(Weights::new(1, vec![("w".to_owned(), Tensor::scalar(1_i64))]));
        let spec = relive_env::make("catch/0", 1).unwrap().spec().clone();
        let layouts = Layouts { extras: spec.actions.clone(), spec };
        let mut rounds: Rounds<Vec<Acted>> =
            Rounds { driver: Arc::clone(&driver), layouts, reader: None, begun: None };
        assert!(rounds.poll().unwrap().is_none());
        let order = || {
            let mut orders = orders::Orders::of(&driver.client, 0).unwrap();
            orders.next_within(Duration::from_millis(200)).unwrap()
        };
        let lost = order().unwrap();
        assert_eq!(order(), None, "it was given once");
        let joined = Told { worker: 0, what: What::Joined { anew: true } };
        Results::new(&driver.client).unwrap().put(&joined, || true).unwrap();
        let since = Instant::now();
        // Less than a slice may be too early.
        while driver.members.lock().is_empty() {
            assert!(rounds.poll().unwrap().is_none());
        }
        assert_eq!(order(), Some(lost));
        assert!(since.elapsed() < ORDER_AGAIN_AFTER, "it was not the clock");
    }
}
