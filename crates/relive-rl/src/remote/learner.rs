//! Who learns.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::scope;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use relive_client::ErrorKind;
use relive_client::blocking::Client;
use relive_env::EnvironmentSpec;
use relive_nn::Params;

use super::lease::{Lease, TIMES};
use super::watch::{Missed, watched};
use super::{counts, episodes, tables, variables};
use crate::experiment::identity::Identity;
use crate::experiment::local::LEARNER_REPORT_EVERY;
use crate::experiment::parts::{Who, environment_seed, learner_key};
use crate::experiment::tally::Tally;
use crate::experiment::threads::PREFETCHED_BATCHES;
use crate::experiment::{MakeEnvironment, Report, Stop, Trained, saved};
use crate::{Agent, Learner, Place, Result, RlError, state};

/// Time between two looks whether there are steps enough.
const PATIENCE: Duration = Duration::from_millis(200);

/// Time from one publication of parameters to the next.
const PUBLISH_EVERY: Duration = Duration::from_millis(50);

/// Time from one state of the learner in the table to the next.
const SAVE_EVERY: Duration = Duration::from_secs(10);

/// Where the run of a server is, and what to do if it is another one.
const PLACE: &str = "the server's table `run`";
const ADVICE: &str =
    "ask for the same, use another server, or drop the tables of that run (relive table drop)";

/// Episodes that are read at once.
const EPISODES_AT_ONCE: usize = 64;

/// Who learns, and where.
pub struct RemoteLearner<'a> {
    /// The agent.
    pub agent: &'a dyn Agent,
    /// The way to the server.
    pub client: &'a Client,
    /// The environment's name.
    pub environment: &'a str,
    /// The run's seed.
    pub seed: u64,
    /// Steps in the environment, of all actors together, after which it ends.
    pub env_steps: u64,
    /// Ends it early.
    pub stop: &'a Stop,
}

/// Learns until the actors have made enough steps, and tells what it and they do. Adds the tables that the server does not have. Where there
/// is the state of a learner before it, it goes on from that. Only if it has ended in order the run is over for the actors; otherwise they wait
/// for the next learner.
///
/// # Errors
/// The server is lost or does not let it add tables, or has others of these names; another learner is at work on this run
/// ([`OtherLearner`](RlError::OtherLearner)), or the run there is of something else ([`OtherRun`](RlError::OtherRun)); the environment is not one that the agent can act in.
pub fn learn(
    options: &RemoteLearner<'_>,
    make_environment: &MakeEnvironment<'_>,
    on_report: &mut dyn FnMut(&Report),
) -> Result<Trained> {
    let RemoteLearner { agent, client, seed, .. } = *options;
    agent.validate()?;
    let spec = make_environment(environment_seed(options.environment, seed, Who::Actor(0)))?.spec().clone();
    let identity = Identity::new((agent.name(), agent.settings()), options.environment, &spec, seed);
    let shared = Shared::new(identity);
    watched(client, Missed::Nobody, || tables::add(client, agent))?;
    let params = loop {
        match attempt(options, &spec, &shared, on_report) {
            Err(RlError::Replay(error)) if is_loss(&error) => come_back(options, &error)?,
            ended => break ended?,
        }
    };
    let min_observations = agent.pace().min_observations;
    let learned_from = inserts(client, agent)?.saturating_sub(min_observations);
    let summary = shared.tally.lock().summary(learned_from);
    Ok(Trained { summary, params, spec })
}

/// Learns until there are steps enough, or the server is lost; what was learned.
fn attempt(
    options: &RemoteLearner<'_>,
    spec: &EnvironmentSpec,
    shared: &Shared,
    on_report: &mut dyn FnMut(&Report),
) -> Result<Arc<Params>> {
    let take = || Lease::take(options.client, TIMES, options.stop);
    let lease = Mutex::new(watched(options.client, Missed::Nobody, take)?);
    shared.is_over.store(false, Ordering::Relaxed);
    let outcome = with_lease(options, spec, (shared, &lease), on_report);
    // The next learner need not wait; if the server is lost, that was said already.
    let released = lease.into_inner().release();
    let params = outcome?;
    released.map(|()| params)
}

/// Whether an error may be that the server is gone, or its tables are since it has come back.
fn is_loss(error: &relive_client::Error) -> bool {
    use ErrorKind::{Cancelled, NotFound, Timeout, Unavailable};
    matches!(error.kind(), Cancelled | NotFound | Timeout | Unavailable)
}

/// Waits for a server that was lost, with its tables.
fn come_back(options: &RemoteLearner<'_>, why: &relive_client::Error) -> Result<()> {
    let RemoteLearner { agent, client, stop, .. } = *options;
    tracing::warn!("the server is lost, or has stopped: {why}; waiting for it to come back");
    loop {
        // A server that stops answers to the end.
        std::thread::sleep(PATIENCE);
        stop.check()?;
        match tables::expect(client, agent) {
            Err(RlError::Replay(error)) if is_loss(&error) => {}
            looked => {
                looked?;
                tracing::info!("the server is back, with the run's tables: going on");
                return Ok(());
            }
        }
    }
}

/// What only one learner at a time may do; what it has learned.
fn with_lease(
    options: &RemoteLearner<'_>,
    spec: &EnvironmentSpec,
    (shared, lease): (&Shared, &Mutex<Lease>),
    on_report: &mut dyn FnMut(&Report),
) -> Result<Arc<Params>> {
    let RemoteLearner { agent, client, seed, .. } = *options;
    let place = Place { spec, client, key: learner_key(seed) };
    let mut learner = agent.learner(&place, PREFETCHED_BATCHES)?;
    match shared.kept.lock().take() {
        // It lives still, and knows more than a checkpoint of the server.
        Some(state) => learner.restore(&state)?,
        None => restore(client, shared, learner.as_mut())?,
    }
    // From the beginning, so that a checkpoint of the server is one of a run, and everybody knows of what.
    save(client, learner.as_mut(), shared)?;
    let newest = learner.variables().clone();
    variables::put(client, &shared.identity, &newest.get(), false)?;
    let (tell, told) = channel();
    let missed = Missed::Actors(agent.tables()?.first().map(|table| table.name.clone()).unwrap_or_default());
    watched(client, missed, || {
        scope(|threads| {
            let tells = tell.clone();
            let reading = threads.spawn(move || shared.ending(|| read(options, (shared, lease), &tells)));
            let learning = threads.spawn(move || {
                let ended = shared.ending(|| steps(options, learner.as_mut(), shared, &tell));
                *shared.kept.lock() = Some(learner.save());
                ended
            });
            shared.ending(|| told.into_iter().for_each(|report| on_report(&report)));
            let joined = [("the learner", learning.join()), ("the reader of episodes", reading.join())];
            joined.into_iter().try_for_each(|(who, ended)| {
                ended.unwrap_or_else(|_| Err(RlError::Panicked { who: who.to_owned() }))
            })
        })
    })?;
    let params = newest.get();
    variables::put(client, &shared.identity, &params, true)?;
    Ok(params)
}

/// What both threads of a learner know.
struct Shared {
    identity: Identity,
    tally: Mutex<Tally>,
    is_over: AtomicBool,
    /// The learner's state when it last stopped.
    kept: Mutex<Option<Vec<u8>>>,
}

impl Shared {
    fn new(identity: Identity) -> Self {
        let (tally, is_over) = (Mutex::new(Tally::new()), AtomicBool::new(false));
        Self { identity, tally, is_over, kept: Mutex::default() }
    }

    fn is_over(&self, options: &RemoteLearner<'_>) -> bool {
        options.stop.is_stopped()
            || self.is_over.load(Ordering::Relaxed)
            || self.tally.lock().env_steps() >= options.env_steps
    }

    /// When one thread ends, also by a panic, the others do.
    fn ending<T>(&self, work: impl FnOnce() -> T) -> T {
        let _ends = Ends(&self.is_over);
        work()
    }
}

/// Is true once this is dropped.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn read(
    options: &RemoteLearner<'_>,
    (shared, lease): (&Shared, &Mutex<Lease>),
    tell: &Sender<Report>,
) -> Result<()> {
    while !shared.is_over(options) {
        lease.lock().renew()?;
        let taken = episodes::take(options.client, EPISODES_AT_ONCE, PATIENCE)?;
        if taken.is_empty() {
            continue;
        }
        for (player, episode) in taken {
            let mut tally = shared.tally.lock();
            let report = match player {
                Some(actor) => Report::Actor(tally.note(actor, &episode)),
                None => Report::Evaluator(tally.note_evaluation(&episode)),
            };
            let _ = tell.send(report);
        }
        // Nobody else will read these episodes.
        counts::put(options.client, &shared.identity, &shared.tally)?;
    }
    Ok(())
}

fn steps(
    options: &RemoteLearner<'_>,
    learner: &mut dyn Learner,
    shared: &Shared,
    tell: &Sender<Report>,
) -> Result<()> {
    let (mut published, mut saved_at) = (Instant::now(), Instant::now());
    let batch_size = options.agent.pace().batch_size as u64;
    while !shared.is_over(options) {
        if learner.step_within(Some(PATIENCE))? {
            let mut tally = shared.tally.lock();
            tally.note_learnt(1, batch_size);
            if tally.learner_steps().is_multiple_of(LEARNER_REPORT_EVERY) {
                let _ = tell.send(Report::Learner(tally.learner_report(learner.metrics())));
            }
        }
        if published.elapsed() >= PUBLISH_EVERY {
            variables::put(options.client, &shared.identity, &learner.variables().get(), false)?;
            published = Instant::now();
        }
        if saved_at.elapsed() >= SAVE_EVERY {
            save(options.client, learner, shared)?;
            saved_at = Instant::now();
        }
    }
    save(options.client, learner, shared)
}

fn save(client: &Client, learner: &mut dyn Learner, shared: &Shared) -> Result<()> {
    let mut sections = vec![learner.save()];
    let state = state::save(|state| {
        saved::visit_sections(state, &mut sections);
        shared.tally.lock().visit(state);
    });
    saved::put(client, &shared.identity, &state)
}

fn restore(client: &Client, shared: &Shared, learner: &mut dyn Learner) -> Result<()> {
    let Some((identity, bytes)) = saved::get(client)? else { return Ok(()) };
    identity.expect(&shared.identity, PLACE, ADVICE)?;
    let mut sections = Vec::new();
    state::restore("a run", &bytes, |state| {
        saved::visit_sections(state, &mut sections);
        shared.tally.lock().visit(state);
    })?;
    counts::take_over(client, &shared.tally)?;
    tracing::info!("resumed from the server's table `run` at step {}", shared.tally.lock().env_steps());
    sections.first().map_or(Ok(()), |section| learner.restore(section))
}

/// Items that were ever inserted into the agent's tables.
fn inserts(client: &Client, agent: &dyn Agent) -> Result<u64> {
    let own = agent.tables()?;
    let info = client.server_info()?;
    let found = info.tables.iter().filter(|table| own.iter().any(|own| own.name == table.config.name));
    Ok(found.map(|table| u64::try_from(table.inserts).unwrap_or(0)).sum())
}
