//! A worker of a run in its own process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use relive_client::blocking::Client;
use relive_flow::Flow;

use super::weight_source::WeightSource;
use crate::identity::{Comparison, Identity};
use crate::limits::MAX_WORKERS;
use crate::plan::{Agent, Crew, CrewParts, MakeAgent, MakeEnvironment, MakeNamed, Role, policies_of};
use crate::remote::{Message, Stream, Worked, WorkerOutput};
use crate::seeds::{EnvironmentUser, environment_seed, generation};
use crate::stop::Stop;
use crate::tables::item::is_loss;
use crate::tables::job::{self, Job};
use crate::tables::orders::Orders;
use crate::tables::results::{FromWorker, Results, WorkerEvent};
use crate::tables::silence::{WatchTarget, watched};
use crate::watching::{LogLines, LogWriter, Origin};
use crate::{Acted, Result, RlError, threads};

/// The time between two checks on the job, for newer weights and for the end of the run.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The minimum age of weights before a check for newer ones between two items.
const FRESH: Duration = Duration::from_millis(2);

/// The time between two reports to the driver.
const REPORT_EVERY: Duration = Duration::from_millis(5);

/// Items that are produced within this time are sent together. Sending one item takes about this long.
const BATCHING_TIME: Duration = Duration::from_micros(200);

/// Items of this size or more are sent alone; a message has room for several such items.
const MAX_BYTES_TOGETHER: usize = 1 << 20;

/// How long one wait for an order lasts before the worker checks whether the run continues.
const SLICE: Duration = Duration::from_millis(100);

/// How long a worker may continue after the end of the run: enough for a step of nearly every environment, which is
/// then closed. A table may block the worker indefinitely.
const GRACE: Duration = Duration::from_secs(1);

/// The name of a setting in messages.
const NUMBER: &str = "the number of the worker";

/// A worker of a run.
#[derive(Debug)]
pub struct Worker<'a> {
    /// The client for the run's server.
    pub client: &'a Client,
    /// The worker's number in the run. In a run with a fixed number of workers, it is less than that number.
    pub number: u32,
    /// Whether a supervisor restarts the worker when it ends. In that case, an earlier worker with this number has
    /// ended.
    pub is_supervised: bool,
    /// Whether the worker waits for the next run if the run that it finds is over. Otherwise the worker ends, as a
    /// worker started by a run should.
    pub awaits_next: bool,
    /// The client for the worker's node, if the worker belongs to one: it takes weights from there as long as they
    /// arrive.
    pub weights_from: Option<&'a Client>,
    /// Stops it early.
    pub stop: &'a Stop,
    /// The log lines from the worker's process, for observers of the run.
    pub log_lines: Option<&'a LogLines>,
}

impl<'a> Worker<'a> {
    /// Creates a worker without a supervisor, with weights from the run's server.
    #[must_use]
    pub fn new(client: &'a Client, number: u32, stop: &'a Stop) -> Worker<'a> {
        Worker {
            client,
            number,
            is_supervised: false,
            awaits_next: false,
            weights_from: None,
            stop,
            log_lines: None,
        }
    }
}

/// Works for the run on a server until the run is over. The run determines the agent, its settings and the environment.
/// Waits for a missing server or driver, and logs the wait.
///
/// A worker that a table blocks after the end of the run is abandoned on its thread.
///
/// # Errors
/// The agent or the environment cannot be created here, or differs from the run's; or the environment or the policy
/// fails, which also ends the run.
pub fn work(worker: &Worker<'_>, agents: &MakeAgent<'_>, environments: &MakeNamed<'_>) -> Result<Worked> {
    let Worker { client, number, log_lines, .. } = *worker;
    if number >= MAX_WORKERS {
        return Err(RlError::setting(NUMBER, number, "below 65536"));
    }
    let writer =
        log_lines.map(|lines| LogWriter::start(client, Origin::Worker(number), lines)).transpose()?;
    let logs = Arc::new(Mutex::new(writer));
    let worked = work_unseen(worker, agents, environments, &logs);
    if let (Some(lines), Err(error)) = (log_lines, &worked) {
        lines.push(&format!("ends by: {error}"));
    }
    worked
}

/// The writer of the worker's log, until the worker leaves the run.
type Logs = Arc<Mutex<Option<LogWriter>>>;

fn work_unseen(
    worker: &Worker<'_>,
    agents: &MakeAgent<'_>,
    environments: &MakeNamed<'_>,
    logs: &Logs,
) -> Result<Worked> {
    let Worker { client, number, weights_from, stop, .. } = *worker;
    let (output, is_over) = (Arc::new(WorkerOutput::default()), Arc::new(AtomicBool::new(false)));
    watched(client, WatchTarget::Driver, || {
        loop {
            is_over.store(false, Ordering::Relaxed);
            let Some(job) = wait_for_job(worker)? else { return Ok(output.worked()) };
            if let Some(lines) = worker.log_lines {
                lines.push(&format!("acting for {} in {}", job.identity.agent, job.identity.environment));
            }
            let agent = agents(&job.identity.agent, &job.identity.settings_json())?;
            let make = environments(&job.identity.environment)?;
            let weights = WeightSource::begin(client, weights_from, number);
            let session =
                weights.map(|weights| WorkSession::new(worker, &job, weights, (&output, &is_over, logs)));
            let ended = session.and_then(|session| session.work(&agent, &make, stop));
            match ended {
                Ok(()) => return Ok(output.worked()),
                Err(error) if is_loss(&error) && is_over.load(Ordering::Relaxed) => {
                    return Ok(output.worked());
                }
                // The server may return soon, with this run or a different one.
                Err(error) if is_loss(&error) => {
                    tracing::info!("lost the server: {error}; waiting for it");
                }
                Err(error) => return Err(error),
            }
        }
    })
}

/// Waits for a job with weights. Returns `None` if the job is over and the worker does not wait for another, or if the
/// worker was stopped.
fn wait_for_job(worker: &Worker<'_>) -> Result<Option<Job>> {
    while !worker.stop.is_stopped() {
        match job::get(worker.client) {
            Ok(Some(job)) if job.now.is_over && worker.awaits_next => {}
            Ok(Some(job)) if job.now.is_over => return Ok(None),
            Ok(Some(job)) if job.now.version.is_some() => return Ok(Some(job)),
            Ok(_) => {}
            Err(error) if is_loss(&error) => {}
            Err(error) => return Err(error),
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(None)
}

/// A worker's activity from finding the job until the job ends or the server is lost.
struct WorkSession {
    client: Client,
    job: Job,
    number: u32,
    is_supervised: bool,
    is_on_node: bool,
    weights: WeightSource,
    output: Arc<WorkerOutput>,
    is_over: Arc<AtomicBool>,
    logs: Logs,
    /// When the worker last checked the job.
    last_check: Mutex<Instant>,
}

impl WorkSession {
    fn new(
        worker: &Worker<'_>,
        job: &Job,
        weights: WeightSource,
        (output, is_over, logs): (&Arc<WorkerOutput>, &Arc<AtomicBool>, &Logs),
    ) -> Arc<WorkSession> {
        Arc::new(WorkSession {
            client: worker.client.clone(),
            job: job.clone(),
            number: worker.number,
            is_supervised: worker.is_supervised,
            is_on_node: worker.weights_from.is_some(),
            weights,
            output: Arc::clone(output),
            is_over: Arc::clone(is_over),
            logs: Arc::clone(logs),
            last_check: Mutex::new(Instant::now()),
        })
    }

    /// Works on a separate thread, and checks the job in the meantime.
    fn work(self: Arc<Self>, agent: &Arc<dyn Agent>, make: &MakeEnvironment, stop: &Stop) -> Result<()> {
        let _feeding = self.weights.feed()?;
        let (sender, result) = channel();
        let (session, agent, make) = (Arc::clone(&self), Arc::clone(agent), make.clone());
        let work = move || {
            // There is no receiver if the thread was abandoned.
            let _ = sender.send(session.serve(&agent, &make));
        };
        threads::spawn("relive-rl-worker", work)?;
        let mut ends_at = None;
        loop {
            match result.recv_timeout(LOOK_EVERY) {
                Ok(Ok(())) if ends_at.is_none() => return self.leave(),
                Ok(ended) => return ended,
                Err(RecvTimeoutError::Disconnected) => {
                    let text = "its thread ended with a panic".to_owned();
                    self.send_event(&mut Results::new(&self.client)?, WorkerEvent::Failed(text.clone()))?;
                    return Err(RlError::Worker { worker: self.number, text });
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if stop.is_stopped() {
                self.is_over.store(true, Ordering::Relaxed);
            }
            match self.check_run() {
                Err(error) if !is_loss(&error) => {
                    // The acting thread ends soon; nothing waits for it.
                    self.is_over.store(true, Ordering::Relaxed);
                    return Err(error);
                }
                _ => {}
            }
            match ends_at {
                None if self.is_over() => {
                    // The worker leaves immediately, because a table may block the thread for as long as the table
                    // exists.
                    self.leave()?;
                    ends_at = Some(Instant::now() + GRACE);
                }
                Some(moment) if Instant::now() >= moment => return Ok(()),
                _ => {}
            }
        }
    }

    /// Reports to the driver that this worker has noticed the end of the run. The log is written before that, because
    /// the driver may then end the server.
    fn leave(&self) -> Result<()> {
        drop(self.logs.lock().take());
        self.send_event(&mut Results::new(&self.client)?, WorkerEvent::Left)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Fetches newer weights, if there are any, and checks whether the run is over.
    fn check_run(&self) -> Result<()> {
        let mut last_check = self.last_check.lock();
        *last_check = Instant::now();
        let Some(job) = job::get(&self.client)? else { return Ok(()) };
        if job.now.is_over {
            self.is_over.store(true, Ordering::Relaxed);
        }
        job.now.stamp().map_or(Ok(()), |newest| self.weights.note_newest(newest))
    }

    fn serve(&self, agent: &Arc<dyn Agent>, make: &MakeEnvironment) -> Result<()> {
        let mut results = Results::new(&self.client)?;
        let stream = self.stream(agent, make);
        let is_extra = u64::from(self.number) >= self.job.now.workers;
        if is_extra && matches!(stream, Ok(Stream::Rounds(_)) | Err(RlError::Setting { .. })) {
            // The run does not need this worker, and continues without it.
            let expected = "below the run's number of actors: each of these makes its part of every round";
            return Err(RlError::setting(NUMBER, self.number, expected));
        }
        self.send_event(&mut results, WorkerEvent::Joined { is_replacement: self.is_supervised })?;
        match stream.and_then(|stream| self.send(stream, &mut results)) {
            Err(error) if !is_loss(&error) => {
                self.send_event(&mut results, WorkerEvent::Failed(error.to_string()))?;
                Err(error)
            }
            ended => ended,
        }
    }

    /// Returns the part of the plan that runs here.
    fn stream(&self, agent: &Arc<dyn Agent>, make: &MakeEnvironment) -> Result<Stream> {
        let of = &self.job.identity;
        agent.validate()?;
        let spec = make.spec(environment_seed(&of.environment, of.seed, EnvironmentUser::Actor(0)))?;
        let own = Identity::new((agent.name(), agent.settings()), &of.environment, &spec, of.seed);
        of.expect(
            &own,
            Comparison {
                place: "the server's table `job`",
                saved: "the run",
                asked: "this worker",
                advice: "use the same version of all programs on all machines",
            },
        )?;
        let crew = Crew::new(CrewParts {
            generation: generation(self.job.now.checkpoints, self.job.now.joins_of(self.number)),
            weights: self.weights.store().clone(),
            ..CrewParts::new(of, self.role(), policies_of(agent), make, spec, &self.client)
        });
        // The driver runs everything after the workers' streams.
        drop(agent.plan(&crew)?);
        self.output.take()
    }

    fn role(&self) -> Role {
        let of = usize::try_from(self.job.now.workers).unwrap_or(usize::MAX).max(1);
        Role::Worker { number: self.number, of, output: Arc::clone(&self.output) }
    }

    fn send(&self, stream: Stream, results: &mut Results) -> Result<()> {
        match stream {
            Stream::Rounds(mut flow) => {
                let worker = usize::try_from(self.number).unwrap_or(usize::MAX);
                let (mut orders, mut last) = (Orders::of(&self.client, worker)?, None);
                while !self.is_over() {
                    let Some(order) = orders.next_within(SLICE)? else { continue };
                    // The driver repeated the order during the round.
                    if last == Some(order.round) {
                        continue;
                    }
                    last = Some(order.round);
                    self.weights.require(order.weights)?;
                    let Some(bytes) = flow.next().transpose()? else { break };
                    self.put(results, order.round, vec![bytes])?;
                }
            }
            Stream::ArrivalOrder(mut flow) => {
                let fresh = if self.weights.is_pushed() { LOOK_EVERY } else { FRESH };
                while !self.is_over() {
                    if self.last_check.lock().elapsed() >= fresh {
                        self.check_run()?;
                    }
                    let items = next_items(&mut flow)?;
                    if items.is_empty() {
                        break;
                    }
                    self.put(results, 0, items)?;
                }
            }
            Stream::Acting(mut flow) => {
                let (mut report, mut reported) = (ActedSum::default(), Instant::now());
                while !self.is_over() {
                    let Some(acted) = flow.next().transpose()? else { break };
                    report.add(acted);
                    if reported.elapsed() >= REPORT_EVERY {
                        reported = Instant::now();
                        self.put(results, 0, vec![report.take()])?;
                    }
                }
            }
        }
        Ok(())
    }

    fn put(&self, results: &mut Results, round: u64, items: Vec<Vec<u8>>) -> Result<()> {
        self.send_event(results, WorkerEvent::Produced { round, items })
    }

    fn send_event(&self, results: &mut Results, event: WorkerEvent) -> Result<()> {
        results
            .put(FromWorker { worker: self.number, is_on_node: self.is_on_node, event }, || !self.is_over())
            .map(drop)
    }
}

/// Returns the next items that are produced within a short time. This is one item, unless items are produced faster
/// than they can be sent. The result is empty at the end.
fn next_items(flow: &mut Flow<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
    let (mut items, mut bytes) = (Vec::new(), 0);
    let until = Instant::now() + BATCHING_TIME;
    while let Some(item) = flow.next().transpose()? {
        bytes += item.len();
        items.push(item);
        if Instant::now() >= until || bytes >= MAX_BYTES_TOGETHER {
            break;
        }
    }
    Ok(items)
}

/// The merged reports since the last report was sent.
#[derive(Default)]
struct ActedSum(Vec<Acted>);

impl ActedSum {
    fn add(&mut self, acted: Vec<Acted>) {
        for more in acted {
            match self.0.iter_mut().find(|known| known.worker == more.worker) {
                Some(known) => known.merge(more),
                None => self.0.push(more),
            }
        }
    }

    fn take(&mut self) -> Vec<u8> {
        let mut acted = std::mem::take(&mut self.0);
        crate::state::save(|state| {
            // The fields of `acted` have fixed types, so a layout error is impossible.
            let _always_fits = acted.visit(state);
        })
    }
}
