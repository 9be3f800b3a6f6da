//! The learning side of a run with processes as workers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use relive_client::blocking::Client;

use crate::contracts::WeightStore;
use crate::identity::Identity;
use crate::limits::{NODE_GONE, PUBLISH_EVERY, publishing_pause};
use crate::nodes::Registry;
use crate::stop::Stop;
use crate::tables::job::{self, JobProgress};
use crate::tables::lease::Lease;
use crate::tables::orders::{self, Order};
use crate::tables::results::{FromWorker, Reader, WorkerEvent};
use crate::tables::weights::{Packed, Stamp};
use crate::watching::WorkerStats;
use crate::{Result, RlError, threads};

/// The time between two checks whether the lease must be renewed.
const CHECK_LEASE_EVERY: Duration = Duration::from_millis(200);

/// How long a pull waits for a result before it yields to others.
const SLICE: Duration = Duration::from_millis(20);

/// How long to wait for workers at the end, since they may have been killed. Live workers check the job far more often.
const WORKERS_LEAVE_TIMEOUT: Duration = Duration::from_secs(3);

/// How long to wait for workers and nodes after the run has failed. The error is then reported, so the wait is short.
const FAILED_LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

/// How long to wait at the end for workers that have never joined. One that has read the job, but whose message has not
/// been read, learns of the end within this time; it would otherwise wait for the tables to return.
const JOIN_TIMEOUT: Duration = Duration::from_millis(500);

/// How long to wait for nodes at the end: by then, the driver has noticed that killed nodes are gone.
const NODES_LEAVE_TIMEOUT: Duration = NODE_GONE.saturating_mul(2);

/// Publishes weights and heartbeats, and receives the workers' messages.
pub(crate) struct Driver {
    pub(super) client: Client,
    identity: Identity,
    pub(super) weights: WeightStore,
    now: Mutex<JobProgress>,
    /// The rounds so far, including the rounds of the run's previous drivers.
    round: AtomicU64,
    is_over: AtomicBool,
    /// Whether publishing has failed.
    has_failed: AtomicBool,
    /// Set when the run should end early.
    stop: Stop,
    /// The nodes of the run.
    nodes: Registry,
    /// For each worker, the number of joins minus the number of leaves.
    pub(super) members: Mutex<BTreeMap<u32, u32>>,
    /// Statistics of the workers, for observers.
    stats: WorkerStats,
    /// The reason of the failure, until the run has taken it.
    failed: Mutex<Option<RlError>>,
}

/// Publishes weights and heartbeats until dropped, on a thread for each: heartbeats must not wait for large weights.
/// If it is dropped without [`end`](Self::end), the run has failed: a run whose tables end with this process is then over
/// for its workers; on another server, they wait for the next driver.
pub(crate) struct Publishing {
    driver: Arc<Driver>,
    threads: Option<(JoinHandle<()>, JoinHandle<Lease>)>,
    /// Whether the tables belong to this process.
    is_own: bool,
}

/// What a driver starts with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Started {
    /// The number of workers.
    pub(crate) workers: usize,
    /// The number of workers, the first ones, that do not belong to nodes.
    pub(crate) without_nodes: usize,
    /// The number of checkpoints that the run has written so far.
    pub(crate) checkpoints: u64,
}

impl Driver {
    /// Writes the job of a run into its table.
    ///
    /// # Errors
    /// The server is lost.
    pub(crate) fn new(
        client: &Client,
        identity: &Identity,
        weights: WeightStore,
        started: Started,
        stop: &Stop,
    ) -> Result<Driver> {
        let follows = job::exists(client)?;
        let before = if follows { job::get(client).ok().flatten() } else { None };
        let last_epoch = before.as_ref().map_or(0, |job| job.now.epoch);
        let joins =
            before.filter(|job| job.identity == *identity).map(|job| job.now.joins).unwrap_or_default();
        // The number is higher than the round numbers of all previous drivers, whose results may still arrive, because
        // rounds take longer than a nanosecond.
        let epoch = rounds_from().max(last_epoch + 1);
        let now = JobProgress {
            workers: started.workers as u64,
            checkpoints: started.checkpoints,
            joins: joins.clone(),
            epoch,
            version: None,
            is_over: false,
        };
        job::put(client, identity, &now, &|| !stop.is_stopped())?;
        Ok(Driver {
            client: client.clone(),
            identity: identity.clone(),
            weights,
            now: Mutex::new(now),
            round: AtomicU64::new(epoch),
            is_over: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            stop: stop.clone(),
            nodes: Registry::new(started.without_nodes, started.workers, follows),
            members: Mutex::default(),
            stats: WorkerStats::with_joins(joins),
            failed: Mutex::new(None),
        })
    }

    /// Returns the statistics of the workers, for observers.
    pub(crate) fn stats(&self) -> &WorkerStats {
        &self.stats
    }

    /// Returns the number of workers.
    pub(crate) fn workers(&self) -> usize {
        usize::try_from(self.now.lock().workers).unwrap_or(usize::MAX)
    }

    /// Returns whether to continue waiting for a server that does not answer.
    fn should_continue(&self) -> bool {
        !self.stop.is_stopped() && !self.is_over.load(Ordering::Relaxed)
    }

    /// Publishes the newest weights, and how often each worker has joined, to workers and nodes, unless both are
    /// already published. Returns the weights' stamp.
    fn publish(&self) -> Result<Option<Stamp>> {
        let mut now = self.now.lock();
        let should_continue = || self.should_continue();
        let newer = self.weights.newer_than(now.version);
        if let Some(newer) = &newer {
            let packed = Packed::of(newer, now.epoch)?;
            packed.put(&self.client, &self.nodes.readers(), &should_continue)?;
            now.version = Some(newer.version());
        }
        let has_joins = self.stats.copy_joins(&mut now.joins);
        if newer.is_some() || has_joins {
            job::put(&self.client, &self.identity, &now, &should_continue)?;
        }
        Ok(now.stamp())
    }

    /// Returns the nodes of the run.
    pub(crate) fn nodes(&self) -> &Registry {
        &self.nodes
    }

    /// Signals the end of the run to workers. If `waits` is true, waits until the workers have noticed.
    ///
    /// # Errors
    /// The server is lost.
    pub(crate) fn end(&self, waits: bool) -> Result<()> {
        let timeouts = [WORKERS_LEAVE_TIMEOUT, NODES_LEAVE_TIMEOUT];
        self.end_within(if waits { timeouts } else { [Duration::ZERO; 2] })
    }

    /// Signals the end of the run to workers, and waits until workers and nodes have noticed, for each at most as long
    /// as given.
    fn end_within(&self, [for_workers, for_nodes]: [Duration; 2]) -> Result<()> {
        let mut now = self.now.lock();
        now.is_over = true;
        job::put(&self.client, &self.identity, &now, &|| self.should_continue())?;
        drop(now);
        let since = Instant::now();
        let mut reader = Reader::new(&self.client)?;
        let has_members = || !self.members.lock().is_empty() && since.elapsed() < for_workers;
        let may_join =
            || self.stats.len() < self.workers() && since.elapsed() < for_workers.min(JOIN_TIMEOUT);
        let has_workers = || has_members() || may_join();
        let has_nodes = || self.nodes.has_some() && since.elapsed() < for_nodes;
        while has_workers() || has_nodes() {
            if let Some(message) = reader.next_within(SLICE)? {
                self.note(&message);
            }
            self.nodes.update(&self.client, &|| false)?;
        }
        Ok(())
    }

    /// Records workers that join or leave.
    fn note(&self, message: &FromWorker) {
        if matches!(message.event, WorkerEvent::Joined { .. }) {
            self.stats.joined(message.worker);
        }
        self.nodes.note_worker(message);
        let mut members = self.members.lock();
        let joined = members.entry(message.worker).or_default();
        match message.event {
            // A worker that has failed ends.
            WorkerEvent::Left | WorkerEvent::Failed(_) => *joined = joined.saturating_sub(1),
            WorkerEvent::Joined { is_replacement: true } => *joined = 1,
            WorkerEvent::Joined { is_replacement: false } => *joined += 1,
            WorkerEvent::Produced { .. } => *joined = (*joined).max(1),
        }
        if message.event == (WorkerEvent::Joined { is_replacement: false }) && *joined == 2 {
            tracing::warn!(
                "worker {} has joined again, as a restarted worker does; if the previous one is still running, \
                 two workers have the same number: give them different ones",
                message.worker
            );
        }
        if *joined == 0 {
            members.remove(&message.worker);
        }
    }

    /// Returns the next message from a worker, or `None` if none arrives in time. The first call creates the reader.
    pub(super) fn next(&self, reader: &mut Option<Reader>) -> Result<Option<FromWorker>> {
        let reader = match reader {
            Some(reader) => reader,
            place => place.insert(Reader::new(&self.client)?),
        };
        let message = reader.next_within(SLICE)?;
        message.iter().for_each(|message| self.note(message));
        Ok(message)
    }

    /// Publishes the newest weights, and creates the order for the next round with them.
    pub(super) fn begin_round(&self) -> Result<Order> {
        let weights = self.publish()?;
        let weights = weights
            .ok_or(RlError::Order { call: "a round of workers", needs: "weights: a plan with a learner" })?;
        Ok(Order { round: self.round.fetch_add(1, Ordering::Relaxed), weights })
    }

    /// Sends an order to these workers.
    pub(super) fn order(&self, workers: &[usize], order: Order) -> Result<()> {
        orders::give(&self.client, workers, order, &|| self.should_continue())
    }

    /// # Errors
    /// The reason that weights and heartbeats are no longer published.
    pub(crate) fn check(&self) -> Result<()> {
        self.failed.lock().take().map_or(Ok(()), Err)
    }

    /// Publishes from now on, with the given lease, or with a new one on the driver's own server.
    ///
    /// # Errors
    /// The errors of [`Lease::take_own`]. Also fails if no thread can be started.
    pub(crate) fn published(self: Arc<Driver>, lease: Option<Lease>) -> Result<(Arc<Driver>, Publishing)> {
        let is_own = lease.is_none();
        let lease = lease.map_or_else(|| Lease::take_own(&self.client), Ok)?;
        let publishing = self.publishing(lease, is_own)?;
        Ok((self, publishing))
    }

    /// Publishes weights and heartbeats on separate threads.
    ///
    /// # Errors
    /// No thread can be started.
    fn publishing(self: &Arc<Driver>, lease: Lease, is_own: bool) -> Result<Publishing> {
        let mut publishing = Publishing { driver: Arc::clone(self), threads: None, is_own };
        let weights = self.repeat("relive-rl-publish", (), |driver, ()| {
            let since = Instant::now();
            driver.publish()?;
            driver.nodes.update(&driver.client, &|| driver.should_continue())?;
            Ok(publishing_pause(since.elapsed()))
        })?;
        let heartbeats = self.repeat("relive-rl-lease", lease, |_, lease| {
            lease.renew()?;
            Ok(CHECK_LEASE_EVERY)
        })?;
        publishing.threads = Some((weights, heartbeats));
        Ok(publishing)
    }

    /// Repeats `work` on a thread until the driver's end, each time after the pause that `work` has returned. A failure
    /// is the driver's end. The thread returns `state`.
    fn repeat<S: Send + 'static>(
        self: &Arc<Driver>,
        name: &'static str,
        mut state: S,
        mut work: impl FnMut(&Driver, &mut S) -> Result<Duration> + Send + 'static,
    ) -> Result<JoinHandle<S>> {
        let driver = Arc::clone(self);
        threads::spawn(name, move || {
            let mut pause = PUBLISH_EVERY;
            while !driver.is_over.load(Ordering::Relaxed) {
                std::thread::park_timeout(pause);
                if driver.has_failed.load(Ordering::Relaxed) {
                    // Another learner may own the tables by now.
                    break;
                }
                match work(&driver, &mut state) {
                    Ok(next) => pause = next,
                    Err(error) => driver.fail(error),
                }
            }
            state
        })
    }

    /// Ends publishing; the run ends with this error, unless there is an earlier one.
    fn fail(&self, error: RlError) {
        self.failed.lock().get_or_insert(error);
        self.has_failed.store(true, Ordering::Relaxed);
        self.is_over.store(true, Ordering::Relaxed);
    }
}

impl Publishing {
    /// Stops publishing. Returns the lease, which the caller then releases.
    pub(crate) fn end(mut self) -> Option<Lease> {
        self.stop()
    }

    fn stop(&mut self) -> Option<Lease> {
        self.driver.is_over.store(true, Ordering::Relaxed);
        let (weights, heartbeats) = self.threads.take()?;
        weights.thread().unpark();
        heartbeats.thread().unpark();
        // A panic has already been printed. Without the lease, the next driver waits until this one counts as silent.
        let _ = weights.join();
        heartbeats.join().ok()
    }
}

impl Drop for Publishing {
    fn drop(&mut self) {
        let has_failed = self.threads.is_some();
        self.stop();
        if !has_failed || !self.is_own {
            return;
        }
        if let Err(error) = self.driver.end_within([FAILED_LEAVE_TIMEOUT; 2]) {
            // The reason why the run has failed is usually also the reason for this error, and is reported.
            tracing::debug!("cannot inform the workers that the run has failed: {error}");
        }
    }
}

/// Returns the nanoseconds since 1970.
fn rounds_from() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(0)
}

#[cfg(test)]
pub(super) mod tests {
    use relive_engine::Engine;
    use relive_env::Environment;

    use super::*;
    use crate::remote::tables;
    use crate::tables::lease;
    use crate::tables::results::Results;

    const ONE_WORKER: Started = Started { workers: 1, without_nodes: 1, checkpoints: 0 };

    pub(in crate::remote) fn driver() -> Driver {
        let engine = tables::worker_tables(1).fold(Engine::builder(), relive_engine::EngineBuilder::table);
        let client = Client::in_process(engine.build().unwrap()).unwrap();
        let spec = relive_env::make("catch/0", 1).unwrap().spec().clone();
        let identity = Identity::new(("none", Vec::new()), "catch/0", &spec, 1);
        Driver::new(&client, &identity, WeightStore::default(), ONE_WORKER, &Stop::new()).unwrap()
    }

    /// Returns the count of members after a worker has joined in these ways, one after the other, and left once.
    fn left_after(joined: &[bool]) -> usize {
        let driver = driver();
        let joined =
            joined.iter().map(|is_replacement| WorkerEvent::Joined { is_replacement: *is_replacement });
        for event in joined.chain([WorkerEvent::Left]) {
            driver.note(&FromWorker { worker: 0, is_on_node: false, event });
        }
        driver.members.into_inner().len()
    }

    #[test]
    fn the_job_tells_a_worker_how_many_processes_had_its_number() {
        let driver = driver();
        let client = driver.client.clone();
        let joined = |worker| FromWorker {
            worker,
            is_on_node: false,
            event: WorkerEvent::Joined { is_replacement: true },
        };
        for worker in [1, 1, 0, u32::MAX] {
            driver.note(&joined(worker));
        }
        driver.publish().unwrap();
        let now = job::get(&client).unwrap().unwrap().now;
        assert_eq!([0, 1, 2, 70_000].map(|worker| now.joins_of(worker)), [1, 2, 0, 0]);
        // The next driver of the run continues this count.
        let spec = relive_env::make("catch/0", 1).unwrap().spec().clone();
        let of = |seed| Identity::new(("none", Vec::new()), "catch/0", &spec, seed);
        let joins_of_next = |seed| {
            let next =
                Driver::new(&client, &of(seed), WeightStore::default(), ONE_WORKER, &Stop::new()).unwrap();
            let now = next.now.lock();
            now.joins_of(1)
        };
        assert_eq!((joins_of_next(1), joins_of_next(2)), (2, 0), "another run counts from zero");
    }

    #[test]
    fn heartbeats_do_not_wait_for_weights() {
        let (driver, publishing) = Arc::new(driver()).published(None).unwrap();
        let weights_take_long = driver.now.lock();
        let (since, first) = (Instant::now(), lease::read(&driver.client).unwrap());
        while lease::read(&driver.client).unwrap() == first {
            assert!(since.elapsed() < NODE_GONE, "no heartbeat within {NODE_GONE:?}");
            std::thread::yield_now();
        }
        drop(weights_take_long);
        publishing.end().unwrap().release().unwrap();
    }

    #[test]
    fn a_worker_that_joins_at_the_end_of_the_run_is_awaited() {
        let driver = driver();
        let client = driver.client.clone();
        let joins_and_leaves = threads::spawn("worker", move || {
            while !job::get(&client).unwrap().unwrap().now.is_over {}
            let mut results = Results::new(&client).unwrap();
            for event in [WorkerEvent::Joined { is_replacement: false }, WorkerEvent::Left] {
                results.put(FromWorker { worker: 0, is_on_node: false, event }, || true).unwrap();
            }
        });
        driver.end(true).unwrap();
        assert_eq!((driver.stats.len(), driver.members.lock().len()), (1, 0));
        joins_and_leaves.unwrap().join().unwrap();
    }

    #[test]
    fn a_replacement_worker_is_the_only_one_with_its_number() {
        assert_eq!(left_after(&[false]), 0);
        assert_eq!(left_after(&[true, true]), 0);
        assert_eq!(left_after(&[false, false]), 1, "two workers with the same number");
    }
}
