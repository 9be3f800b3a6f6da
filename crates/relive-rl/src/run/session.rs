//! A run between two checkpoints, or between two losses of its server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use relive_client::blocking::Client;
use relive_engine::{Engine, EngineBuilder, Rules};
use relive_env::{EnvironmentSpec, State};
use relive_flow::Flow;
use relive_random::Key;
use relive_table::{Snapshot, TableConfig};

use super::identity::Identity;
use super::kept::Kept;
use super::options::Begun;
use super::report::Pace;
use super::saved::{self, Folder};
use super::seeds::{Who, actor_key, environment_seed};
use super::shown::{self, Graph, Phase, Position, Showing};
use super::tally::Tally;
use super::{Evaluation, Report, RunOptions, Stop, Summary, is_due, patience};
use crate::acting::RolloutWorker;
use crate::contracts::WeightStore;
use crate::learners::{self, Team};
use crate::logging::{Loggers, Mark};
use crate::plan::{Crew, Inner, MakeEnvironment, Place, Progress, unlimited};
use crate::processes::{Driver, Layouts, Lease, Publishing, counts, tables};
use crate::times::{Lap, SharedTimes};
use crate::watching::{LogWriter, Origin, Roster, log_tables, stop_table};
use crate::{Agent, Part, Purpose, Result, RlError, Seat, Weights, state};

/// Time from one writing of counters on a server to the next.
const COUNT_EVERY: Duration = Duration::from_millis(100);

/// Where the run of a server is, and what to do if it is another one.
const PLACE: &str = "the server's table `run`";
const ADVICE: &str =
    "ask for the same, use another server, or drop the tables of that run (relive table drop)";

/// The part of a saved run that says how far the files of its loggers went.
const LOGS: &str = "logs";
const WHAT: &str = "a run's logs";

/// What a run has come to.
#[derive(Debug)]
pub struct Trained {
    /// In figures.
    pub summary: Summary,
    /// What was learned.
    pub weights: Weights,
    /// What the environment takes and gives.
    pub spec: EnvironmentSpec,
    /// The graph of the plan, as it was in the end.
    pub graph: Graph,
}

/// Gets all that a run tells; an error ends it.
pub(super) type Tell<'a> = &'a mut dyn FnMut(&Report) -> Result<()>;

/// Where the tables of a run are.
pub(super) enum Tables {
    /// In this process; with what was saved, if it is resumed.
    Own(Option<Snapshot>),
    /// On a server, for this driver alone; with a state that is newer than that in the server's table, if there is one.
    Server { client: Client, lease: Lease, state: Option<Vec<u8>> },
}

/// A run between two checkpoints.
pub(super) struct Session {
    /// Of the run's own tables.
    engine: Option<Engine>,
    client: Client,
    identity: Identity,
    crew: Crew,
    plan: Flow<Progress>,
    evaluator: Option<(Evaluation, RolloutWorker)>,
    tally: Tally,
    /// What workers in processes are told.
    published: Option<(Arc<Driver>, Publishing)>,
    counted: Instant,
    pace: Pace,
    /// Where others can look at the run.
    showing: Option<Showing>,
    roster: Roster,
    /// Writes down what this process logs.
    _log_writer: Option<LogWriter>,
    /// The version of the weights that was acted by last.
    acted_by: Option<u64>,
    /// Told when it is to end early: then a server that does not answer is not waited for any more.
    stop: Stop,
}

impl Session {
    pub(super) fn begin(
        agent: &Arc<dyn Agent>,
        options: &RunOptions,
        make: &MakeEnvironment,
        tables: Tables,
        folder: Option<&Folder>,
    ) -> Result<Session> {
        let (environment, seed) = (options.environment.clone(), options.seed);
        let spec = make.spec(environment_seed(&environment, seed, Who::Actor(0)))?;
        let begins_anew = begins_anew(options, make)?;
        let mut settings = agent.settings();
        settings.extend(options.data.iter().map(|data| ("data".to_owned(), data.display().to_string())));
        let identity = Identity::new((agent.name(), settings), &environment, &spec, seed);
        if let (Tables::Own(Some(snapshot)), Some(folder)) = (&tables, folder) {
            folder.expect_run(snapshot, &identity)?;
        }
        let (engine, client, lease, newer, checkpoints) = opened(agent, options, tables)?;
        // Before anything is changed in tables that may be of another run.
        let state = saved_state(&client, &identity, newer)?;
        let weights = WeightStore::default();
        let driver = driver(options, &client, &identity, &weights, checkpoints)?;
        if let Some((watch, engine)) = options.watch.as_ref().zip(engine.as_ref()) {
            watch.show(engine);
        }
        let (tally, kept) = resumed(state.as_deref(), engine.is_none().then_some(&client))?;
        let place = match (&driver, &engine) {
            (None, Some(engine)) => Place::Here { actors: options.actors, engine: engine.clone() },
            (Some(driver), _) => Place::Driver(Arc::clone(driver)),
            (None, None) => return Err(RlError::Order { call: "a run on a server", needs: "processes" }),
        };
        let layouts = || Layouts::of(agent.as_ref(), &spec, seed);
        let hooks = options.hooks.of_run(layouts)?;
        let team = Team::of_run(options, &identity, layouts)?;
        let crew = Crew::new(Inner {
            agent: Arc::clone(agent),
            make: make.clone(),
            environment,
            spec,
            seed,
            place,
            env_steps: options.env_steps,
            data: options.data.clone(),
            checkpoints,
            begins_anew,
            weights,
            kept,
            client: client.clone(),
            times: SharedTimes::default(),
            hooks,
            team,
        });
        let plan = agent.plan(&crew)?;
        let evaluator = evaluator(options, &crew)?;
        let roster = driver.as_ref().map_or_else(Roster::default, |driver| driver.roster().clone());
        let published = driver.map(|driver| driver.published(lease)).transpose()?;
        let (showing, log_writer) = seen(options, (&client, &identity), (crew.times(), &roster))?;
        crew.team().map_or(Ok(()), |team| team.announce(&client, &identity))?;
        options.begun.iter().for_each(Begun::tell);
        crew.meet()?;
        Ok(Session {
            engine,
            client,
            identity,
            crew,
            plan,
            evaluator,
            tally,
            published,
            counted: Instant::now(),
            pace: Pace::begin(Instant::now()),
            showing,
            roster,
            _log_writer: log_writer,
            acted_by: None,
            stop: options.stop.clone(),
        })
    }

    /// How far the run has come: it differs wherever there is something to save.
    pub(super) fn position(&self) -> [u64; 4] {
        self.tally.position()
    }

    /// How far the files of its loggers went where it was resumed from; none for a run that was not saved, or without its loggers.
    pub(super) fn marks(&self) -> Result<Option<Vec<Mark>>> {
        let saved = self.crew.saved(LOGS);
        let marks =
            saved.map(|bytes| serde_json::from_slice(bytes).map_err(|error| RlError::state(WHAT, error)));
        marks.transpose()
    }

    /// Steps that evaluations and checkpoints are counted by: those in the environment, or of the learner where there are to be none.
    pub(super) fn steps(&self, options: &RunOptions) -> u64 {
        if options.env_steps == 0 { self.tally.learner_steps() } else { self.tally.env_steps() }
    }

    /// Whether it has made all steps that it was to make.
    fn is_done(&self, options: &RunOptions) -> bool {
        match options.learner_steps {
            Some(most) if self.tally.learner_steps() >= most => true,
            Some(_) if options.env_steps == 0 => false,
            _ => self.tally.env_steps() >= options.env_steps,
        }
    }

    /// Pulls at the plan once; whether the run goes on.
    fn advance(&mut self, options: &RunOptions, tell: Tell<'_>) -> Result<bool> {
        let (lag, newest) = (self.version_lag(), self.newest_version());
        let Session { crew, plan, published, showing, tally, .. } = self;
        let (monitor, position) = (plan.monitor(), Position::of(tally, lag, newest));
        let check = || {
            published.as_ref().map_or(Ok(()), |(driver, _)| driver.check())?;
            crew.team().map_or(Ok(()), Team::check)?;
            let nodes = published.as_ref().map(|(driver, _)| driver.nodes());
            showing.as_mut().map_or(Ok(()), |showing| showing.show_now_and_then(&monitor, position, nodes))
        };
        let Some(progress) = patience::next(plan, &options.stop, check)? else { return Ok(false) };
        if let Some((driver, _)) = &self.published {
            driver.nodes().note_acted(&progress.acted);
        }
        for acted in &progress.acted {
            self.tally.note_env_steps(acted.env_steps);
            self.tally.note_times(&acted.times);
            self.roster.acted(acted);
            self.acted_by = acted.version.or(self.acted_by);
        }
        let of_workers = progress.acted.iter().map(|acted| (acted.worker, &acted.episodes));
        let mut episodes: Vec<_> =
            of_workers.flat_map(|(worker, episodes)| episodes.iter().map(move |e| (worker, e))).collect();
        // In the order of their ends, which is the same however environments are shared out among workers.
        episodes.sort_by_key(|(_, episode)| episode.ended_at);
        for (worker, episode) in episodes {
            let worker = usize::try_from(worker).unwrap_or(usize::MAX);
            tell(&Report::Actor(self.tally.note_episode(worker, episode)))?;
        }
        if let Some(learnt) = progress.learnt {
            let before = self.tally.learner_steps();
            self.tally.note_learnt(learnt.steps, learnt.samples);
            if self.pace.is_due(before, self.tally.learner_steps(), Instant::now()) {
                let mut metrics = learnt.metrics;
                #[expect(clippy::cast_precision_loss, reason = "a count for people")]
                metrics.extend(self.version_lag().map(|lag| ("version_lag", lag as f64)));
                tell(&Report::Learner(self.tally.learner_report(metrics)))?;
            }
        }
        if self.engine.is_none() && !progress.acted.is_empty() && self.counted.elapsed() >= COUNT_EVERY {
            // Nobody else will read these results.
            self.count()?;
        }
        Ok(true)
    }

    /// Pulls at the plan until all steps are made, or the run is to stop, with evaluations on the way. After each pull
    /// `after` gets the session, and the [steps](Self::steps) before it and now.
    pub(super) fn run(
        &mut self,
        options: &RunOptions,
        tell: Tell<'_>,
        after: &mut dyn FnMut(&mut Session, [u64; 2]) -> Result<()>,
    ) -> Result<()> {
        while !self.is_done(options) {
            let before = self.steps(options);
            if !self.advance(options, tell)? {
                break;
            }
            let now = self.steps(options);
            if options.evaluation.is_some_and(|evaluation| is_due(evaluation.every, before, now)) {
                self.evaluate(tell)?;
            }
            after(self, [before, now])?;
        }
        Ok(())
    }

    /// The evaluation at the end, unless there was one just before. It is no part of a saved run: one that goes on from there takes the way of a run that did
    /// not end.
    pub(super) fn evaluate_at_end(&mut self, tell: Tell<'_>) -> Result<()> {
        if self.tally.is_evaluated() { Ok(()) } else { self.evaluate(tell) }
    }

    fn evaluate(&mut self, tell: Tell<'_>) -> Result<()> {
        let Some((evaluation, worker)) = &mut self.evaluator else { return Ok(()) };
        let (count, mut lap) = (usize::try_from(evaluation.episodes).unwrap_or(usize::MAX), Lap::begin());
        let episodes = worker.episodes(count)?;
        self.crew.times().add(Part::Evaluate, lap.lap());
        for episode in episodes {
            tell(&Report::Evaluator(self.tally.note_evaluation(&episode)))?;
        }
        Ok(())
    }

    /// Versions of the weights since those that were acted by last.
    fn version_lag(&self) -> Option<u64> {
        Some(self.newest_version()?.saturating_sub(self.acted_by?))
    }

    fn newest_version(&self) -> Option<u64> {
        Some(self.crew.weights().newest()?.version())
    }

    /// Takes over what the operators in this process took.
    fn take_times(&mut self) {
        let times = self.crew.times().take();
        self.tally.note_times(&times);
    }

    /// Writes the counters into their table on a server.
    fn count(&mut self) -> Result<()> {
        self.counted = Instant::now();
        self.take_times();
        let counters = state::save(|state| self.tally.visit(state));
        counts::put(&self.client, (&self.identity, &counters), &|| !self.stop.is_stopped())
    }

    /// All that it is resumed from, beside the tables.
    pub(super) fn state(&mut self) -> Vec<u8> {
        self.take_times();
        let evaluator = self.evaluator.as_mut().map(|(_, worker)| worker.save());
        let mut parts = self.crew.save(evaluator);
        state::save(|state| visit(state, &mut self.tally, &mut parts))
    }

    /// Puts its state into its table.
    pub(super) fn save(&mut self) -> Result<()> {
        let state = self.state();
        self.crew.agent().check_saved()?;
        saved::put(&self.client, &self.identity, &state, &|| !self.stop.is_stopped())
    }

    /// Whether its environments begin anew after each checkpoint.
    pub(super) fn begins_anew(&self) -> bool {
        self.crew.begins_anew()
    }

    /// Saving took so long.
    pub(super) fn note_saving(&mut self, took: Duration) {
        self.crew.times().add(Part::Save, took);
    }

    /// Writes a checkpoint; what it holds. What was told until then is in the files of the loggers.
    pub(super) fn checkpoint(&mut self, folder: &Folder, loggers: &Loggers) -> Result<Snapshot> {
        let marks = serde_json::to_vec(&loggers.marks()?).map_err(|error| RlError::state(WHAT, error))?;
        self.crew.keep(LOGS, marks);
        self.save()?;
        let own = self.engine.as_ref();
        folder.save(own.ok_or(RlError::Order { call: "a checkpoint", needs: "tables in this process" })?)
    }

    /// Items that could be learned from: of tables those after the ones that learning waited for, otherwise steps.
    fn inserts(&self) -> Result<u64> {
        let own = self.crew.agent().tables()?;
        if own.is_empty() {
            return Ok(self.tally.env_steps());
        }
        let info = self.client.server_info()?;
        let of_table = |table: &TableConfig| {
            let inserts = info.table(&table.name).map_or(0, |found| found.inserts);
            u64::try_from(inserts - table.rate_limiter.min_size_to_sample).unwrap_or(0)
        };
        Ok(own.iter().map(of_table).sum())
    }

    /// Ends the run for everybody; what it has come to.
    pub(super) fn end(mut self) -> Result<Trained> {
        let weights = self.crew.weights().newest();
        let weights =
            weights.ok_or(RlError::Order { call: "the end of a run", needs: "a plan with a learner" })?;
        self.take_times();
        let (summary, graph) = (self.tally.summary(self.inserts()?), Graph::of(&self.plan));
        if self.engine.is_none() {
            self.count()?;
        }
        // Before the tables are closed that the others sample.
        self.crew.team().into_iter().for_each(Team::leave);
        let is_own = self.engine.is_some();
        self.show(Phase::Over)?;
        if let Some((driver, publishing)) = self.published.take() {
            // Whatever reads results for the plan ends before the last of them are read. None of its threads waits at a table for long, as those of
            // workers in this process do until the tables are closed.
            self.plan = Flow::from_iter("nothing", std::iter::empty());
            let lease = publishing.end();
            driver.end(is_own)?;
            // The next driver need not wait.
            lease.map_or(Ok(()), Lease::release)?;
        }
        Ok(Trained { summary, weights, spec: self.crew.spec().clone(), graph })
    }

    /// Shows how it stands with the run, once it goes on no more.
    fn show(&mut self, phase: Phase) -> Result<()> {
        let position = Position::of(&self.tally, self.version_lag(), self.newest_version());
        let monitor = self.plan.monitor();
        let nodes = self.published.as_ref().map(|(driver, _)| driver.nodes());
        self.showing.as_mut().map_or(Ok(()), |showing| showing.show(&monitor, position, nodes, phase))
    }

    /// Leaves the run to the next driver, who need not wait; workers do.
    pub(super) fn abandon(mut self) {
        if let Err(error) = self.show(Phase::Left) {
            tracing::debug!("that the run is left is not shown: {error}");
        }
        let lease = self.published.take().and_then(|(_, publishing)| publishing.end());
        if let Some(Err(error)) = lease.map(Lease::release) {
            // Why it was abandoned is told already: as a rule the same.
            tracing::debug!("the lease is not released: {error}");
        }
    }
}

impl Drop for Session {
    /// Ends the waits of the plan's threads at the tables, so that the plan can end them.
    fn drop(&mut self) {
        // Nothing is left to be told where the run has ended in order.
        self.crew.team().into_iter().for_each(|team| team.fail("the run has ended with an error"));
        self.engine.iter().for_each(Engine::close);
    }
}

/// What has workers in other processes act, if there are to be some.
fn driver(
    options: &RunOptions,
    client: &Client,
    identity: &Identity,
    weights: &WeightStore,
    checkpoints: u64,
) -> Result<Option<Arc<Driver>>> {
    let driver = options.processes.as_ref().map(|processes| {
        let of = (processes.started(options.actors), options.actors, checkpoints);
        Driver::new(client, identity, weights.clone(), of, &options.stop).map(Arc::new)
    });
    driver.transpose()
}

/// What shows the run to others, and what it logs, if anybody can look.
fn seen(
    options: &RunOptions,
    (client, identity): (&Client, &Identity),
    (times, roster): (&SharedTimes, &Roster),
) -> Result<(Option<Showing>, Option<LogWriter>)> {
    if options.watch.is_none() && options.processes.is_none() {
        return Ok((None, None));
    }
    let showing = Showing::new(client, identity, &options.stop, (times, roster));
    let lines = options.log_lines.as_ref();
    let writer = lines.map(|lines| LogWriter::start(client, Origin::Driver, lines)).transpose()?;
    Ok((Some(showing), writer))
}

/// The worker that plays evaluations, if there are to be any.
fn evaluator(options: &RunOptions, crew: &Crew) -> Result<Option<(Evaluation, RolloutWorker)>> {
    options.evaluation.map(|evaluation| Ok((evaluation, crew.evaluator()?))).transpose()
}

/// Whether the run that a server has, if there is one, is that which is asked for, and its agent can act in the environment.
pub(super) fn expect_run(
    server: &Client,
    agent: &dyn Agent,
    options: &RunOptions,
    make: &MakeEnvironment,
) -> Result<()> {
    let (environment, seed) = (options.environment.as_str(), options.seed);
    let spec = make.spec(environment_seed(environment, seed, Who::Actor(0)))?;
    let keys = [actor_key(seed, Who::Actor(0))];
    agent.policy(&Seat::alone(&spec, Purpose::Training, &keys))?;
    let identity = Identity::new((agent.name(), agent.settings()), environment, &spec, seed);
    saved_state(server, &identity, None).map(drop)
}

/// Whether environments of a run begin anew after each of its checkpoints, though they are where it is saved.
fn begins_anew(options: &RunOptions, make: &MakeEnvironment) -> Result<bool> {
    let first = environment_seed(&options.environment, options.seed, Who::Actor(0));
    Ok(options.checkpoints.is_some() && options.actors == 0 && !make.are_saved(first)?)
}

/// The tables of a run: its own engine if it has one, the way to them, the lease on a server, a state that is newer than that of the table `run`, and
/// checkpoints before.
type Opened = (Option<Engine>, Client, Option<Lease>, Option<Vec<u8>>, u64);

fn opened(agent: &Arc<dyn Agent>, options: &RunOptions, tables: Tables) -> Result<Opened> {
    let snapshot = match tables {
        Tables::Server { client, lease, state } => return Ok((None, client, Some(lease), state, 0)),
        Tables::Own(snapshot) => snapshot,
    };
    let configs: Vec<TableConfig> = match options.processes {
        Some(_) => tables::of_run(agent.as_ref(), options.actors)?,
        None => {
            let tables = agent.tables()?.into_iter();
            let tables = match &options.data {
                Some(_) => tables.map(unlimited).collect::<Result<Vec<_>>>()?,
                None => tables.collect(),
            };
            tables
                .into_iter()
                .chain([saved::table(), shown::table(), stop_table()])
                .chain(log_tables(0))
                .collect()
        }
    };
    let configs = configs.into_iter().chain(options.learners.map(|_| learners::table()));
    let checkpoints = snapshot.as_ref().map_or(0, saved::number);
    let engine = engine(options.seed, checkpoints, configs.collect(), snapshot)?;
    let client = Client::in_process(engine.clone())?;
    Ok((Some(engine), client, None, None, checkpoints))
}

fn engine(
    seed: u64,
    checkpoints: u64,
    tables: Vec<TableConfig>,
    snapshot: Option<Snapshot>,
) -> Result<Engine> {
    let key = Key::from_seed(seed).child("replay").nth(checkpoints);
    let builder = Engine::builder().seed(key.stream().bits());
    let builder = tables.into_iter().fold(builder, EngineBuilder::table);
    Ok(match snapshot {
        Some(snapshot) => builder.build_from(snapshot, Rules::Given)?.engine,
        None => builder.build()?,
    })
}

/// The state that a run goes on from, if there is one: `newer`, or what is in the table `run`.
fn saved_state(client: &Client, identity: &Identity, newer: Option<Vec<u8>>) -> Result<Option<Vec<u8>>> {
    let Some((saved, bytes)) = saved::get(client)? else { return Ok(newer) };
    saved.expect(identity, PLACE, ADVICE)?;
    Ok(Some(newer.unwrap_or(bytes)))
}

/// The counters and the parts that a state has; on a server the counters may be newer than it.
fn resumed(state: Option<&[u8]>, server: Option<&Client>) -> Result<(Tally, Kept)> {
    let (mut tally, mut kept) = (Tally::new(), Kept::default());
    if let Some(bytes) = state {
        let mut parts = Vec::new();
        state::restore("a run", bytes, |state| visit(state, &mut tally, &mut parts))?;
        kept = Kept::from_bytes(&parts)?;
    }
    let counters = server.map(counts::get).transpose()?.flatten();
    if let Some(counters) = counters {
        tally.take_over_newer(&counters)?;
        tracing::info!("resumed from {PLACE} at step {}", tally.env_steps());
    }
    Ok((tally, kept))
}

fn visit(state: &mut State<'_>, tally: &mut Tally, parts: &mut Vec<u8>) {
    tally.visit(state);
    state.bytes(parts);
}
