//! Who learns.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::scope;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use relive_client::blocking::Client;

use super::{episodes, tables, variables};
use crate::experiment::local::LEARNER_REPORT_EVERY;
use crate::experiment::parts::{Who, environment_seed, learner_key};
use crate::experiment::tally::Tally;
use crate::experiment::threads::PREFETCHED_BATCHES;
use crate::experiment::{MakeEnvironment, Report, Stop, Trained, saved};
use crate::{Agent, Learner, Pace, Place, Result, RlError, state};

/// Time between two looks whether there are steps enough.
const PATIENCE: Duration = Duration::from_millis(200);

/// Time from one publication of parameters to the next.
const PUBLISH_EVERY: Duration = Duration::from_millis(50);

/// Time from one state of the learner in the table to the next.
const SAVE_EVERY: Duration = Duration::from_secs(10);

/// Episodes that are read at once.
const EPISODES_AT_ONCE: usize = 64;

/// Who learns, and where.
pub struct RemoteLearner<'a> {
    /// The agent.
    pub agent: &'a dyn Agent,
    /// The way to the server.
    pub client: &'a Client,
    /// The run's seed.
    pub seed: u64,
    /// Steps in the environment, of all actors together, after which it ends.
    pub env_steps: u64,
    /// Ends it early.
    pub stop: &'a Stop,
}

/// Learns until the actors have made enough steps, and tells what it and they do. Adds the tables that the server does not have. Where there
/// is the state of a learner before it, it goes on from that.
///
/// # Errors
/// The server is lost or does not let it add tables; the environment is not one that the agent can act in.
pub fn learn(
    options: &RemoteLearner<'_>,
    make_environment: &MakeEnvironment<'_>,
    on_report: &mut dyn FnMut(&Report),
) -> Result<Trained> {
    let RemoteLearner { agent, client, seed, .. } = *options;
    agent.validate()?;
    let spec = make_environment(environment_seed(seed, Who::Actor(0)))?.spec().clone();
    tables::add(client, agent)?;
    let place = Place { spec: &spec, client, key: learner_key(seed) };
    let mut learner = agent.learner(&place, PREFETCHED_BATCHES)?;
    let shared = Shared { tally: Mutex::new(Tally::new()), is_over: AtomicBool::new(false) };
    restore(client, learner.as_mut(), &shared)?;
    let newest = learner.variables().clone();
    variables::put(client, &newest.get(), false)?;
    let (tell, told) = channel();
    let outcome = scope(|threads| {
        let (shared, tells) = (&shared, tell.clone());
        let reading = threads.spawn(move || shared.ending(|| read(options, shared, &tells)));
        let learning =
            threads.spawn(move || shared.ending(|| steps(options, learner.as_mut(), shared, &tell)));
        told.into_iter().for_each(|report| on_report(&report));
        let joined = [("the learner", learning.join()), ("the reader of episodes", reading.join())];
        joined.into_iter().try_for_each(|(who, ended)| {
            ended.unwrap_or_else(|_| Err(RlError::Panicked { who: who.to_owned() }))
        })
    });
    let params = newest.get();
    variables::put(client, &params, true)?;
    outcome?;
    let Pace { batch_size, min_observations, .. } = agent.pace();
    let learned_from = inserts(client, agent)?.saturating_sub(min_observations);
    let summary = shared.tally.lock().summary(batch_size, learned_from);
    Ok(Trained { summary, params: Arc::clone(&params), spec })
}

/// What both threads of a learner know.
struct Shared {
    tally: Mutex<Tally>,
    is_over: AtomicBool,
}

impl Shared {
    fn is_over(&self, options: &RemoteLearner<'_>) -> bool {
        options.stop.is_stopped()
            || self.is_over.load(Ordering::Relaxed)
            || self.tally.lock().env_steps() >= options.env_steps
    }

    /// When one thread ends, the other does.
    fn ending(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let ended = work();
        self.is_over.store(true, Ordering::Relaxed);
        ended
    }
}

fn read(options: &RemoteLearner<'_>, shared: &Shared, tell: &Sender<Report>) -> Result<()> {
    while !shared.is_over(options) {
        for (player, episode) in episodes::take(options.client, EPISODES_AT_ONCE, PATIENCE)? {
            let mut tally = shared.tally.lock();
            let report = match player {
                Some(actor) => Report::Actor(tally.note(actor, &episode)),
                None => Report::Evaluator(tally.note_evaluation(&episode)),
            };
            let _ = tell.send(report);
        }
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
    while !shared.is_over(options) {
        if learner.step_within(Some(PATIENCE))? {
            let mut tally = shared.tally.lock();
            tally.note_learner_step();
            if tally.learner_steps().is_multiple_of(LEARNER_REPORT_EVERY) {
                let _ = tell.send(Report::Learner(tally.learner_report(learner)));
            }
        }
        if published.elapsed() >= PUBLISH_EVERY {
            variables::put(options.client, &learner.variables().get(), false)?;
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
    saved::put(client, &state)
}

fn restore(client: &Client, learner: &mut dyn Learner, shared: &Shared) -> Result<()> {
    let Some(bytes) = saved::get(client)? else { return Ok(()) };
    let mut sections = Vec::new();
    state::restore("a run", &bytes, |state| {
        saved::visit_sections(state, &mut sections);
        shared.tally.lock().visit(state);
    })?;
    sections.first().map_or(Ok(()), |section| learner.restore(section))
}

/// Items that were ever inserted into the agent's tables.
fn inserts(client: &Client, agent: &dyn Agent) -> Result<u64> {
    let own = agent.tables()?;
    let info = client.server_info()?;
    let found = info.tables.iter().filter(|table| own.iter().any(|own| own.name == table.config.name));
    Ok(found.map(|table| u64::try_from(table.inserts).unwrap_or(0)).sum())
}
