//! A worker of a run, in a process of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use relive_client::blocking::Client;
use relive_flow::Flow;

use super::weight_source::WeightSource;
use crate::identity::Identity;
use crate::limits::MAX_WORKERS;
use crate::plan::{Agent, Crew, MakeAgent, MakeEnvironment, MakeNamed, policies_of};
use crate::remote::{Message, Stream, Worked, WorkerOutput};
use crate::seeds::{Who, environment_seed};
use crate::stop::Stop;
use crate::tables::item::is_loss;
use crate::tables::job::{self, Job};
use crate::tables::orders::Orders;
use crate::tables::results::{FromWorker, Results, WorkerEvent};
use crate::tables::silence::{Missed, watched};
use crate::watching::{LogLines, LogWriter, Origin};
use crate::{Acted, Result, RlError};

/// Time between two looks at the job, for newer weights and for its end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The least age of weights before newer ones are looked for between two items.
const FRESH: Duration = Duration::from_millis(2);

/// Time from one report of what was done to the next.
const REPORT_EVERY: Duration = Duration::from_millis(5);

/// Items that are made within this time go together: about as long as one takes to be sent.
const TOGETHER: Duration = Duration::from_micros(200);

/// Bytes from which on items go without others: a message has room for some of them.
const MAX_BYTES_TOGETHER: usize = 1 << 20;

/// How long an order is waited for before the worker looks whether the run goes on.
const SLICE: Duration = Duration::from_millis(100);

/// For how long a worker may go on when the run is over. A table may hold it back then, which nobody ends.
const GRACE: Duration = Duration::from_secs(2);

/// A setting, in messages.
const NUMBER: &str = "the number of the worker";

/// A worker of a run.
#[derive(Debug)]
pub struct Worker<'a> {
    /// The way to the server of the run.
    pub client: &'a Client,
    /// Tells it from the other workers; of a run with a fixed number of them, below that number.
    pub number: u32,
    /// Whether whoever has started it starts another in its place when it ends. Then one of its number that was there
    /// before has ended.
    pub is_supervised: bool,
    /// Whether it waits for the next run where the one that it finds is over. Otherwise it ends, as is right for one
    /// that was started by a run.
    pub awaits_next: bool,
    /// The way to its node, if it is the worker of one: weights come from there as long as they do.
    pub weights_from: Option<&'a Client>,
    /// Ends it early.
    pub stop: &'a Stop,
    /// What its process logs, for those who look at the run from outside.
    pub log_lines: Option<&'a LogLines>,
}

impl<'a> Worker<'a> {
    /// A worker that nobody starts anew, with weights of the run's server.
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

/// Works for the run on a server until that is over. Agent, settings and environment are what the run says. A server
/// or a driver that is not there is waited for, and the log says so.
///
/// A worker that a table holds back when the run is over is left behind on its thread.
///
/// # Errors
/// The agent or the environment cannot be made here, or is not that of the run; the first error of the environment or
/// the policy, which ends the run, too.
pub fn work(worker: &Worker<'_>, agents: &MakeAgent<'_>, environments: &MakeNamed<'_>) -> Result<Worked> {
    let Worker { client, number, log_lines, .. } = *worker;
    if number >= MAX_WORKERS {
        return Err(RlError::setting(NUMBER, number, "below 65536"));
    }
    let _writer =
        log_lines.map(|lines| LogWriter::start(client, Origin::Worker(number), lines)).transpose()?;
    let worked = work_unseen(worker, agents, environments);
    if let (Some(lines), Err(error)) = (log_lines, &worked) {
        lines.push(&format!("ends by: {error}"));
    }
    worked
}

fn work_unseen(worker: &Worker<'_>, agents: &MakeAgent<'_>, environments: &MakeNamed<'_>) -> Result<Worked> {
    let Worker { client, number, is_supervised, weights_from, stop, .. } = *worker;
    let (output, is_over) = (Arc::new(WorkerOutput::default()), Arc::new(AtomicBool::new(false)));
    watched(client, Missed::Driver, || {
        loop {
            is_over.store(false, Ordering::Relaxed);
            let Some(job) = wait_for_job(worker)? else { return Ok(output.worked()) };
            if let Some(lines) = worker.log_lines {
                lines.push(&format!("acts for {} in {}", job.identity.agent, job.identity.environment));
            }
            let agent = agents(&job.identity.agent, &job.identity.settings_json())?;
            let make = environments(&job.identity.environment)?;
            let weights = WeightSource::begin(client, weights_from, number);
            let session = weights.map(|weights| {
                WorkSession::new(client, &job, (number, is_supervised), weights, (&output, &is_over))
            });
            let ended = session.and_then(|session| session.work(&agent, &make, stop));
            match ended {
                Ok(()) => return Ok(output.worked()),
                Err(error) if is_loss(&error) && is_over.load(Ordering::Relaxed) => {
                    return Ok(output.worked());
                }
                // It may be back in a moment, with this run or another one.
                Err(error) if is_loss(&error) => {
                    tracing::info!("the server is lost: {error}; waiting for it");
                }
                Err(error) => return Err(error),
            }
        }
    })
}

/// The job of the server, as soon as there is one that has weights; none if it is over and no other is waited for, or
/// the worker was told to stop.
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

/// A worker, from the job to its end or the loss of the server.
struct WorkSession {
    client: Client,
    job: Job,
    number: u32,
    is_supervised: bool,
    weights: WeightSource,
    output: Arc<WorkerOutput>,
    is_over: Arc<AtomicBool>,
    /// When it last looked at the job.
    looked: Mutex<Instant>,
}

impl WorkSession {
    fn new(
        client: &Client,
        job: &Job,
        (number, is_supervised): (u32, bool),
        weights: WeightSource,
        (output, is_over): (&Arc<WorkerOutput>, &Arc<AtomicBool>),
    ) -> Arc<WorkSession> {
        Arc::new(WorkSession {
            client: client.clone(),
            job: job.clone(),
            number,
            is_supervised,
            weights,
            output: Arc::clone(output),
            is_over: Arc::clone(is_over),
            looked: Mutex::new(Instant::now()),
        })
    }

    /// Works on a thread of its own, and looks at the job meanwhile.
    fn work(self: Arc<Self>, agent: &Arc<dyn Agent>, make: &MakeEnvironment, stop: &Stop) -> Result<()> {
        let _feeding = self.weights.feed()?;
        let (tell, told) = channel();
        let (session, agent, make) = (Arc::clone(&self), Arc::clone(agent), make.clone());
        let work = move || {
            // Nobody listens any more where it was left behind.
            let _ = tell.send(session.serve(&agent, &make));
        };
        let thread = Builder::new().name("relive-rl-worker".to_owned()).spawn(work);
        thread.map_err(|error| RlError::file("the thread of a worker".as_ref(), error))?;
        let mut ends_at = None;
        loop {
            match told.recv_timeout(LOOK_EVERY) {
                Ok(Ok(())) if ends_at.is_none() => return self.leave(),
                Ok(ended) => return ended,
                Err(RecvTimeoutError::Disconnected) => {
                    let text = "its thread ended with a panic".to_owned();
                    self.tell(&mut Results::new(&self.client)?, WorkerEvent::Failed(text.clone()))?;
                    return Err(RlError::Worker { worker: self.number, text });
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if stop.is_stopped() {
                self.is_over.store(true, Ordering::Relaxed);
            }
            match self.look() {
                Err(error) if !is_loss(&error) => return Err(error),
                _ => {}
            }
            match ends_at {
                None if self.is_over() => {
                    // At once: its thread may be held back by a table for as long as that is there.
                    self.leave()?;
                    ends_at = Some(Instant::now() + GRACE);
                }
                Some(moment) if Instant::now() >= moment => return Ok(()),
                _ => {}
            }
        }
    }

    /// Tells the driver that this worker knows that the run is over.
    fn leave(&self) -> Result<()> {
        self.tell(&mut Results::new(&self.client)?, WorkerEvent::Left)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Takes newer weights, if there are some, and sees whether the run is over.
    fn look(&self) -> Result<()> {
        let mut looked = self.looked.lock();
        *looked = Instant::now();
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
            // It is of no use to the run, which goes on without it.
            let expected =
                "below the number of actors of the run, each of which makes its part of every round";
            return Err(RlError::setting(NUMBER, self.number, expected));
        }
        self.tell(&mut results, WorkerEvent::Joined { anew: self.is_supervised })?;
        match stream.and_then(|stream| self.send(stream, &mut results)) {
            Err(error) if !is_loss(&error) => {
                self.tell(&mut results, WorkerEvent::Failed(error.to_string()))?;
                Err(error)
            }
            ended => ended,
        }
    }

    /// The part of the plan that is made here.
    fn stream(&self, agent: &Arc<dyn Agent>, make: &MakeEnvironment) -> Result<Stream> {
        let of = &self.job.identity;
        agent.validate()?;
        let spec = make.spec(environment_seed(&of.environment, of.seed, Who::Actor(0)))?;
        let own = Identity::new((agent.name(), agent.settings()), &of.environment, &spec, of.seed);
        of.expect(&own, "the server's table `job`", "run the same version of everything everywhere")?;
        let output = &self.output;
        let crew = Crew::of_worker(
            (&policies_of(agent), make, &self.client),
            (of, spec, self.job.now.checkpoints),
            (self.number, usize::try_from(self.job.now.workers).unwrap_or(usize::MAX)),
            (self.weights.store().clone(), Arc::clone(output)),
        );
        // Whatever comes behind the workers is the driver's.
        drop(agent.plan(&crew)?);
        output.take()
    }

    fn send(&self, stream: Stream, results: &mut Results) -> Result<()> {
        match stream {
            Stream::Rounds(mut flow) => {
                let worker = usize::try_from(self.number).unwrap_or(usize::MAX);
                let (mut orders, mut last) = (Orders::of(&self.client, worker)?, None);
                while !self.is_over() {
                    let Some(order) = orders.next_within(SLICE)? else { continue };
                    // It was ordered again while it was made.
                    if last == Some(order.round) {
                        continue;
                    }
                    last = Some(order.round);
                    self.weights.require(order.weights)?;
                    let Some(bytes) = flow.next().transpose()? else { break };
                    self.put(results, order.round, vec![bytes])?;
                }
            }
            Stream::AsTheyCome(mut flow) => {
                let fresh = if self.weights.is_pushed() { LOOK_EVERY } else { FRESH };
                while !self.is_over() {
                    if self.looked.lock().elapsed() >= fresh {
                        self.look()?;
                    }
                    let items = together(&mut flow)?;
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
        self.tell(results, WorkerEvent::Made { round, items })
    }

    fn tell(&self, results: &mut Results, event: WorkerEvent) -> Result<()> {
        results.put(&FromWorker { worker: self.number, event }, || !self.is_over()).map(drop)
    }
}

/// The next items, as many as are made in a moment: one, unless they are made faster than they can be sent. None at
/// the end.
fn together(flow: &mut Flow<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
    let (mut items, mut bytes) = (Vec::new(), 0);
    let until = Instant::now() + TOGETHER;
    while let Some(item) = flow.next().transpose()? {
        bytes += item.len();
        items.push(item);
        if Instant::now() >= until || bytes >= MAX_BYTES_TOGETHER {
            break;
        }
    }
    Ok(items)
}

/// What was done since the last report, as one.
#[derive(Default)]
struct ActedSum(Vec<Acted>);

impl ActedSum {
    fn add(&mut self, acted: Vec<Acted>) {
        for more in acted {
            match self.0.iter_mut().find(|known| known.worker == more.worker) {
                Some(known) => {
                    known.env_steps += more.env_steps;
                    known.version = more.version;
                    known.episodes.extend(more.episodes);
                }
                None => self.0.push(more),
            }
        }
    }

    fn take(&mut self) -> Vec<u8> {
        let mut acted = std::mem::take(&mut self.0);
        crate::state::save(|state| {
            // Its fields are of fixed kinds: nothing of it can be laid out otherwise.
            let _always_fits = acted.visit(state);
        })
    }
}
