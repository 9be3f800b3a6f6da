//! Measures the costs of a run by running it for a few seconds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use relive_client::ClientOptions;
use relive_client::blocking::Client;
use relive_engine::Engine;
use relive_env::{Buffer, EnvironmentSpec};

use super::acting;
use super::costs::{Costs, TableCost, WeightCost};
use super::moment::Moment;
use super::threads::{CpuTimes, Side};
use crate::plan::MakeEnvironment;
use crate::processes::{Worker, work};
use crate::remote::Layouts;
use crate::run::{Begun, Processes, Report, RunOptions, Stop, Trained, Watch, train};
use crate::tables::weights as published;
use crate::watching::host_name;
use crate::{Agent, Result, RlError, Weights, threads};

/// The maximum time until the learner's first step.
const BEGINS_WITHIN: Duration = Duration::from_secs(120);

/// The time that is skipped at the beginning, while caches are cold.
const WARM: Duration = Duration::from_millis(300);

/// The number of weight versions that are published and fetched to measure the cost, and the time limit for this
/// measurement.
const FETCHES: u32 = 20;
const FETCHES_WITHIN: Duration = Duration::from_millis(500);

/// A worker that the run holds back is idle after this time.
const QUIET: Duration = Duration::from_millis(200);

/// The measurement is divided into this many parts. The median over the parts is robust against disturbances of single
/// parts.
const PARTS: u32 = 9;

/// A run to be measured.
#[derive(Clone)]
pub struct Probe<'a> {
    /// The agent.
    pub agent: &'a Arc<dyn Agent>,
    /// The environment's name.
    pub environment: &'a str,
    /// Creates the environments.
    pub make: &'a MakeEnvironment,
    /// Serves the run's tables at `address`.
    pub watch: Watch,
    /// The address of the served tables, host:port.
    pub address: String,
    /// The duration of the measurement, from the learner's first step.
    pub seconds: Duration,
    /// Stops the measurement early, with the error [`Stopped`](RlError::Stopped).
    pub stop: Stop,
}

impl Probe<'_> {
    /// Measures the costs: the run learns in this thread, while one worker acts and sends its experience over
    /// the network.
    ///
    /// # Errors
    /// The errors of the run. Also fails if the learner takes no step within two minutes, or if the system does not
    /// report the processor times of threads.
    pub fn measure(&self) -> Result<Costs> {
        CpuTimes::now()?;
        let run = self.run()?;
        let Measured { trained, moments, weights, items } = run;
        let (agent, weights_then) = (self.agent.as_ref(), &trained.weights);
        let acting = acting::measure(agent, self.environment, self.make, SEED, weights_then)?;
        let environments = self.agent.environments(1);
        let window = Window::of(&moments, weights).ok_or(RlError::Stopped)?;
        let mut costs = window.costs(acting, environments);
        (costs.agent, costs.environment) = (self.agent.name().to_owned(), self.environment.to_owned());
        costs.settings = self.agent.settings().into_iter().collect();
        costs.tables = window.tables(self.agent.as_ref(), &items)?;
        costs.sent_bytes = match costs.tables.is_empty() {
            true => sent_bytes(self.agent, &trained.spec)?,
            false => costs.tables.iter().map(|table| table.inserts * table.item_bytes).sum(),
        };
        Ok(costs)
    }

    fn run(&self) -> Result<Measured> {
        let engine: Arc<Mutex<Option<Engine>>> = Arc::default();
        let watch = {
            let (seen, watch) = (Arc::clone(&engine), self.watch.clone());
            Watch::new(move |engine| {
                *seen.lock() = Some(engine.clone());
                watch.show(engine);
            })
        };
        let worker = Arc::new(Mutex::new(None));
        let options = RunOptions {
            environment: self.environment.to_owned(),
            env_steps: u64::MAX,
            seed: SEED,
            actors: 1,
            processes: Some(Processes::default()),
            stop: self.stop.clone(),
            watch: Some(watch),
            begun: Some(self.worker(Arc::clone(&worker))),
            ..RunOptions::default()
        };
        let ends = TimeLimit::set(&self.stop, BEGINS_WITHIN + self.seconds)?;
        let mut watching =
            Watching { probe: self, engine, begun: None, moments: Vec::new(), ended: None, failed: None };
        let trained = train(self.agent, &options, self.make, &mut |report| watching.note(report));
        drop(ends);
        let joined = worker.lock().take().map(JoinHandle::join);
        let worked = joined.and_then(std::result::Result::ok).unwrap_or(Ok(()));
        let trained = trained?;
        worked?;
        watching.failed.map_or(Ok(()), Err)?;
        match watching.ended {
            Some((weights, items)) => Ok(Measured { trained, moments: watching.moments, weights, items }),
            _ if watching.begun.is_none() && trained.summary.learner_steps == 0 => {
                let expected = "at most 120: nothing can be measured until the learner starts; give the agent \
                                a smaller min_replay_size, or a faster environment";
                Err(RlError::setting("the time in seconds until the learner starts", "more", expected))
            }
            _ => Err(RlError::Stopped),
        }
    }

    /// Starts the worker once the run can be joined.
    fn worker(&self, place: Arc<Mutex<Option<JoinHandle<Result<()>>>>>) -> Begun {
        let (agent, make) = (Arc::clone(self.agent), self.make.clone());
        let (address, stop) = (self.address.clone(), self.stop.clone());
        Begun::new(move || {
            let (agent, make, address, stop) =
                (Arc::clone(&agent), make.clone(), address.clone(), stop.clone());
            let act = move || -> Result<()> {
                let client = Client::connect_with(&address, ClientOptions::default())?;
                let ended = Stop::new();
                let worker = Worker::new(&client, 0, &ended);
                let worked = work(&worker, &|_, _| Ok(Arc::clone(&agent)), &|_| Ok(make.clone()));
                if worked.is_err() {
                    stop.stop();
                }
                worked.map(drop)
            };
            // Without a worker the run waits until it is stopped.
            *place.lock() = threads::spawn("relive-probe", act).ok();
        })
    }
}

impl std::fmt::Debug for Probe<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (agent, environment) = (self.agent.name(), self.environment);
        f.debug_struct("Probe")
            .field("agent", &agent)
            .field("environment", &environment)
            .finish_non_exhaustive()
    }
}

/// Any seed will do, because the run is never resumed.
const SEED: u64 = 1;

/// The size of an item in bytes, for each non-empty table.
type ItemBytes = Vec<(String, f64)>;

/// The measurements of the run.
struct Measured {
    trained: Trained,
    moments: Vec<Moment>,
    weights: WeightTimes,
    items: ItemBytes,
}

/// The times to publish and to fetch a version of the weights.
#[derive(Debug, Clone, Copy)]
struct WeightTimes {
    bytes: f64,
    publish_s: f64,
    fetch_s: f64,
    serve_s: f64,
}

/// Stops the run after its time limit.
struct TimeLimit {
    _ends: Sender<()>,
}

impl TimeLimit {
    fn set(stop: &Stop, after: Duration) -> Result<TimeLimit> {
        let (ends, ended) = channel::<()>();
        let stop = stop.clone();
        let wait = move || {
            if ended.recv_timeout(after) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                stop.stop();
            }
        };
        threads::spawn("relive-alarm", wait)?;
        Ok(TimeLimit { _ends: ends })
    }
}

/// Observes the run from its report callback, on the learner's thread.
struct Watching<'a> {
    probe: &'a Probe<'a>,
    engine: Arc<Mutex<Option<Engine>>>,
    begun: Option<Instant>,
    /// The moments of the actual measurement.
    moments: Vec<Moment>,
    ended: Option<(WeightTimes, ItemBytes)>,
    failed: Option<RlError>,
}

impl Watching<'_> {
    fn note(&mut self, report: &Report) {
        if self.failed.is_none()
            && self.ended.is_none()
            && let Err(error) = self.observe(report)
        {
            self.failed = Some(error);
            self.probe.stop.stop();
        }
    }

    fn observe(&mut self, report: &Report) -> Result<()> {
        let (env_steps, learner_steps) = (report.env_steps(), report.learner_steps());
        let Some(engine) = self.engine.lock().clone().filter(|_| learner_steps > 0) else { return Ok(()) };
        let begun = *self.begun.get_or_insert_with(Instant::now);
        let client = Client::in_process(engine)?;
        let seconds = self.probe.seconds;
        match (self.moments.first(), self.moments.last()) {
            (Some(first), Some(last))
                if last.at.elapsed() >= seconds / PARTS && env_steps > last.env_steps =>
            {
                let is_last = first.at.elapsed() >= seconds;
                self.moments.push(Moment::now(&client, env_steps, learner_steps)?);
                if is_last {
                    let items = item_bytes(&client)?;
                    self.ended = Some((weight_times(&client, &self.probe.address)?, items));
                    self.probe.stop.stop();
                }
            }
            (None, _) if begun.elapsed() >= WARM => {
                self.moments.push(Moment::now(&client, env_steps, learner_steps)?);
            }
            _ => {}
        }
        Ok(())
    }
}

#[expect(clippy::cast_precision_loss, reason = "a mean of bytes")]
fn item_bytes(client: &Client) -> Result<ItemBytes> {
    let tables = client.status()?.tables.into_iter().filter(|table| table.info.current_size > 0);
    let bytes = tables.map(|table| {
        let items = table.info.current_size as f64;
        (table.info.config.name.clone(), table.chunks.encoded_bytes as f64 / items)
    });
    Ok(bytes.collect())
}

/// Publishes and fetches weights while the learner pauses and the worker waits for the learner.
fn weight_times(client: &Client, address: &str) -> Result<WeightTimes> {
    std::thread::sleep(QUIET);
    let far = Client::connect_with(address, ClientOptions::default())?;
    let packed = published::get(&far, published::TIMEOUT)?;
    let weights = packed.unpack()?;
    let get = || published::get(&far, published::TIMEOUT)?.unpack().map(drop);
    let (fetches, fetched, idle) = repeated(get)?;
    let sides = [Side::Learner, Side::Connection, Side::Others];
    let of = |(before, after): &(CpuTimes, CpuTimes), side| after.since(before, side).0 / f64::from(fetches);
    let [own, connection, others] = sides.map(|side| (of(&fetched, side) - of(&idle, side)).max(0.0));
    let (puts, put, idle) = repeated(|| packed.put(client, &[], &|| true))?;
    let of = |(before, after): &(CpuTimes, CpuTimes), side| after.since(before, side).0 / f64::from(puts);
    let publish_s = sides.into_iter().map(|side| (of(&put, side) - of(&idle, side)).max(0.0)).sum();
    Ok(WeightTimes { bytes: bytes_of(&weights), publish_s, fetch_s: own + connection, serve_s: others })
}

type Span = (CpuTimes, CpuTimes);

/// Repeats a call. Returns the number of calls, and the processor times of threads during the calls and during an idle
/// period of the same length.
fn repeated(mut call: impl FnMut() -> Result<()>) -> Result<(u32, Span, Span)> {
    let (begun, before) = (Instant::now(), CpuTimes::now()?);
    let mut calls = 0;
    while calls < FETCHES && begun.elapsed() < FETCHES_WITHIN {
        call()?;
        calls += 1;
    }
    let (took, after) = (begun.elapsed(), CpuTimes::now()?);
    std::thread::sleep(took);
    let idle = (after.clone(), CpuTimes::now()?);
    Ok((calls, (before, after), idle))
}

#[expect(clippy::cast_precision_loss, reason = "for rates")]
fn bytes_of(weights: &Weights) -> f64 {
    weights.parts().iter().filter_map(|(_, tensor)| tensor.bytes()).map(|bytes| bytes.len() as f64).sum()
}

/// Returns the size of an environment step as a worker sends it in a rollout: observation, action, extras and time
/// step, in bytes.
#[expect(clippy::cast_precision_loss, reason = "for rates")]
fn sent_bytes(agent: &Arc<dyn Agent>, spec: &EnvironmentSpec) -> Result<f64> {
    let layouts = Layouts::of(agent, spec, SEED)?;
    let mut bytes = ANSWER_BYTES;
    for nest in [&layouts.spec.observations, &layouts.spec.actions, &layouts.extras] {
        let buffer = Buffer::for_nest(nest, 1)?;
        bytes += (0..buffer.num_leaves())
            .filter_map(|leaf| buffer.leaf_bytes(leaf))
            .map(<[u8]>::len)
            .sum::<usize>();
    }
    Ok(bytes as f64)
}

/// The size of a time step: its kind, reward and discount.
const ANSWER_BYTES: usize = 17;

/// The part of a run between the first and the last recorded moment.
struct Window<'a> {
    moments: &'a [Moment],
    first: &'a Moment,
    last: &'a Moment,
    weights: WeightTimes,
}

impl Window<'_> {
    /// Returns `None` if there are fewer than two moments.
    fn of(moments: &[Moment], weights: WeightTimes) -> Option<Window<'_>> {
        let (first, last) = moments.first().zip(moments.last()).filter(|_| moments.len() > 1)?;
        Some(Window { moments, first, last, weights })
    }

    /// Returns the CPU usage between each pair of consecutive moments.
    fn parts(&self) -> impl Iterator<Item = CpuUsage> {
        self.moments.windows(2).map(|pair| CpuUsage::between(&pair[0], &pair[1], self.weights))
    }

    /// Returns the costs per environment step.
    #[expect(clippy::cast_precision_loss, reason = "counts of some seconds")]
    fn costs(&self, acting: Vec<super::ActCost>, rows: usize) -> Costs {
        let Window { first, last, weights, .. } = self;
        let whole = CpuUsage::between(first, last, *weights);
        let (puts, fetches) = last.of_table(first, published::TABLE);
        // Each time is divided by the steps that caused it, because parts differ in their shares of acting and
        // learning.
        let of_steps = |of: fn(&CpuUsage) -> f64| median(self.parts().map(|part| of(&part) / part.steps));
        let of_both = |part: &CpuUsage| {
            f64::midpoint(part.steps / whole.steps, part.learner_steps / whole.learner_steps.max(1.0))
        };
        let learner = median(self.parts().map(|part| part.learner / part.learner_steps));
        let others = median(self.parts().map(|part| part.others / of_both(&part)));
        let mut costs = Costs {
            version: Costs::VERSION,
            agent: String::new(),
            environment: String::new(),
            settings: BTreeMap::new(),
            host: host_name(),
            processors: std::thread::available_parallelism().map_or(1.0, |count| count.get() as f64),
            rows,
            acting,
            send_s: 0.0,
            connection_s: of_steps(|part| part.connection),
            pause_s: 0.0,
            learner_s: learner * whole.learner_steps / whole.steps,
            serve_s: others / whole.steps,
            learner_steps: whole.learner_steps / whole.steps,
            round: (whole.rounds > 0.0).then(|| whole.steps / whole.rounds),
            round_pause_s: 0.0,
            tables: Vec::new(),
            sent_bytes: 0.0,
            weights: WeightCost {
                bytes: weights.bytes,
                publish_s: weights.publish_s,
                fetch_s: weights.fetch_s,
                serve_s: weights.serve_s,
                fetched: if puts > 0.0 { (fetches / puts).min(1.0) } else { 0.0 },
            },
        };
        costs.send_s = (of_steps(|part| part.worker) - costs.act_s(rows as f64)).max(0.0);
        match costs.round {
            Some(_) => {
                costs.round_pause_s =
                    median(self.parts().map(|part| part.waited(part.learner + part.others) / part.rounds));
            }
            // Measured only if the worker is the busier of the two. A busier learner does not wait for the worker;
            // instead, the worker waits for the learner, and these waits would be counted as well.
            None if whole.worker_active > whole.learner_active => {
                costs.pause_s = median(self.parts().map(|part| part.waited(0.0) / part.steps));
            }
            None => {}
        }
        costs
    }

    /// Returns the load of the agent's tables.
    fn tables(&self, agent: &dyn Agent, items: &[(String, f64)]) -> Result<Vec<TableCost>> {
        let Window { first, last, .. } = self;
        let steps = last.steps_since(first);
        let tables = agent.tables()?.into_iter().map(|table| {
            let (inserts, samples) = last.of_table(first, &table.name);
            let item_bytes =
                items.iter().find(|(name, _)| *name == table.name).map_or(0.0, |(_, bytes)| *bytes);
            TableCost { name: table.name, inserts: inserts / steps, samples: samples / steps, item_bytes }
        });
        Ok(tables.collect())
    }
}

/// The processor times of threads between two moments, excluding the publishing and fetching of weights, and the number
/// of steps.
struct CpuUsage {
    steps: f64,
    learner_steps: f64,
    rounds: f64,
    seconds: f64,
    learner: f64,
    worker: f64,
    connection: f64,
    others: f64,
    /// The time during which threads were runnable but had no processor.
    held: f64,
    /// The time during which the learner and the worker, respectively, were running or runnable.
    learner_active: f64,
    worker_active: f64,
}

impl CpuUsage {
    #[expect(clippy::cast_precision_loss, reason = "counts of some seconds")]
    fn between(first: &Moment, last: &Moment, weights: WeightTimes) -> CpuUsage {
        let (puts, fetches) = last.of_table(first, published::TABLE);
        let sides = [Side::Learner, Side::Worker, Side::Connection, Side::Others];
        let [learner, worker, connection, others] =
            sides.map(|side| last.cpu_times.since(&first.cpu_times, side));
        CpuUsage {
            steps: last.steps_since(first),
            learner_steps: (last.learner_steps - first.learner_steps) as f64,
            rounds: last.of_table(first, ROUNDS).0,
            seconds: last.at.duration_since(first.at).as_secs_f64(),
            learner: learner.0,
            worker: worker.0,
            connection: (connection.0 - fetches * weights.fetch_s).max(0.0),
            others: (others.0 - fetches * weights.serve_s - puts * weights.publish_s).max(0.0),
            held: learner.1 + worker.1 + connection.1 + others.1,
            learner_active: learner.0 + learner.1,
            worker_active: worker.0 + worker.1,
        }
    }

    /// Returns how long the worker waited, not counting `for_others`, the seconds during which it waited for the work
    /// of others. If other processes use the processors, a thread also waits until the thread that it depends on gets a
    /// processor. This wait is not counted.
    fn waited(&self, for_others: f64) -> f64 {
        (self.seconds - self.held - self.worker - for_others).max(0.0)
    }
}

/// Returns the median of the finite values, or 0 if there are none.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// The orders for the only worker, one per round.
const ROUNDS: &str = "orders/0";
