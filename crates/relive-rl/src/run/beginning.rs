//! The start of a run, new or resumed: creates a session from options and tables.

use std::sync::Arc;
use std::time::Instant;

use relive_client::blocking::Client;
use relive_env::EnvironmentSpec;

use super::checkpoints::Folder;
use super::opening::{Opened, Tables};
use super::options::Begun;
use super::pace::ReportPace;
use super::session::Session;
use super::{Evaluation, RunOptions};
use crate::acting::RolloutWorker;
use crate::contracts::WeightStore;
use crate::identity::Identity;
use crate::plan::{Agent, Crew, CrewParts, MakeEnvironment, Role, SavedParts, policies_of};
use crate::recorded::RunData;
use crate::remote::{Driver, Layouts, Team};
use crate::seeds::{EnvironmentUser, environment_seed};
use crate::times::SharedTimes;
use crate::watching::{LogWriter, Origin, PlanStateWriter, WorkerStats};
use crate::{Result, RlError};

impl Session {
    pub(super) fn begin(
        agent: &Arc<dyn Agent>,
        options: &RunOptions,
        make: &MakeEnvironment,
        tables: Tables,
        folder: Option<&Folder>,
    ) -> Result<Session> {
        let spec =
            make.spec(environment_seed(&options.environment, options.seed, EnvironmentUser::Actor(0)))?;
        let begins_anew = begins_anew(options, make)?;
        let (identity, data) = identified(agent.as_ref(), options, &spec, &tables)?;
        if let (Tables::Own(Some(snapshot)), Some(folder)) = (&tables, folder) {
            folder.expect_run(snapshot, &identity)?;
        }
        let mut opened = Opened::of(agent.as_ref(), options, tables)?;
        // Checked before any table is changed, because the tables may belong to another run.
        let state = opened.state(&identity)?;
        let weights = WeightStore::default();
        let driver = driver(options, (&opened.client, &identity), &weights, opened.checkpoints)?;
        if let Some((watch, engine)) = options.watch.as_ref().zip(opened.engine.as_ref()) {
            watch.show(engine);
        }
        let (counters, saved) = opened.resumed(state.as_deref())?;
        let of = (&opened, driver.as_ref(), &identity);
        let resumes = Resumes { is_resumed: state.is_some(), begins_anew };
        let crew = crew(agent, (options, make, data), of, (spec, resumes), (weights, saved))?;
        let plan = agent.plan(&crew)?;
        crew.free_data();
        let evaluator = evaluator(options, &crew)?;
        let workers = driver.as_ref().map_or_else(WorkerStats::default, |driver| driver.stats().clone());
        let Opened { engine, client, lease, .. } = opened;
        let published = driver.map(|driver| driver.published(lease)).transpose()?;
        let (plan_state, log_writer) =
            publish_state(options, (&client, &identity), (crew.times(), &workers))?;
        crew.team().map_or(Ok(()), |team| team.announce(&client, &identity))?;
        options.begun.iter().for_each(Begun::notify);
        crew.meet()?;
        Ok(Session {
            engine,
            client,
            identity,
            agent: Arc::clone(agent),
            crew,
            plan,
            evaluator,
            counters,
            published,
            counted: Instant::now(),
            pace: ReportPace::begin(Instant::now()),
            plan_state,
            workers,
            _log_writer: log_writer,
            acted_by: None,
            stop: options.stop.clone(),
        })
    }
}

/// Returns the identity of the run, and the data that it learns from.
fn identified(
    agent: &dyn Agent,
    options: &RunOptions,
    spec: &EnvironmentSpec,
    tables: &Tables,
) -> Result<(Identity, Option<RunData>)> {
    let path = options.data.as_deref();
    if let Tables::Again(_, identity) = tables {
        return Ok((identity.clone(), path.map(RunData::stored)));
    }
    let (data, digest) = path.map(|path| RunData::load(path, spec)).transpose()?.unzip();
    let identity = Identity::new((agent.name(), agent.settings()), &options.environment, spec, options.seed);
    Ok((identity.with_data(digest), data))
}

/// How a run continues from a checkpoint.
struct Resumes {
    /// Whether this run continues from a saved state.
    is_resumed: bool,
    /// Whether environments reset after each checkpoint.
    begins_anew: bool,
}

/// Returns the resources for the run's plan.
fn crew(
    agent: &Arc<dyn Agent>,
    (options, make, data): (&RunOptions, &MakeEnvironment, Option<RunData>),
    (opened, driver, identity): (&Opened, Option<&Arc<Driver>>, &Identity),
    (spec, resumes): (EnvironmentSpec, Resumes),
    (weights, parts): (WeightStore, SavedParts),
) -> Result<Crew> {
    let RunOptions { environment, seed, actors, env_steps, .. } = options;
    let role = match (driver, &opened.engine) {
        (None, Some(engine)) => Role::Here { actors: *actors, engine: engine.clone() },
        (Some(driver), _) => Role::Driver(Arc::clone(driver)),
        (None, None) => return Err(RlError::Order { call: "a run on a server", needs: "processes" }),
    };
    let layouts = || Layouts::of(agent, &spec, *seed);
    let hooks = options.hooks.of_run(layouts)?;
    let team = Team::of_run((options.learners, *actors, *env_steps), &options.stop, identity, layouts)?;
    Ok(Crew::new(CrewParts {
        policies: policies_of(agent),
        make: make.clone(),
        environment: environment.clone(),
        spec,
        seed: *seed,
        role,
        env_steps: *env_steps,
        data,
        generation: opened.checkpoints,
        is_resumed: resumes.is_resumed,
        begins_anew: resumes.begins_anew,
        weights,
        parts,
        client: opened.client.clone(),
        times: SharedTimes::default(),
        hooks,
        team,
    }))
}

/// Returns the driver, if workers are other processes.
fn driver(
    options: &RunOptions,
    (client, identity): (&Client, &Identity),
    weights: &WeightStore,
    checkpoints: u64,
) -> Result<Option<Arc<Driver>>> {
    let driver = options.processes.as_ref().map(|processes| {
        let of = (processes.started(options.actors), options.actors, checkpoints);
        Driver::new(client, identity, weights.clone(), of, &options.stop).map(Arc::new)
    });
    driver.transpose()
}

/// Publishes the run's state and logs, if observers can connect.
fn publish_state(
    options: &RunOptions,
    (client, identity): (&Client, &Identity),
    (times, workers): (&SharedTimes, &WorkerStats),
) -> Result<(Option<PlanStateWriter>, Option<LogWriter>)> {
    if options.watch.is_none() && options.processes.is_none() {
        return Ok((None, None));
    }
    let state = PlanStateWriter::new(client, identity, &options.stop, (times, workers));
    let lines = options.log_lines.as_ref();
    let writer = lines.map(|lines| LogWriter::start(client, Origin::Driver, lines)).transpose()?;
    Ok((Some(state), writer))
}

/// Returns the worker for evaluations, if the options request them.
fn evaluator(options: &RunOptions, crew: &Crew) -> Result<Option<(Evaluation, RolloutWorker)>> {
    options.evaluation.map(|evaluation| Ok((evaluation, crew.evaluator()?))).transpose()
}

/// Returns whether environments in the process that writes checkpoints reset after each checkpoint.
fn begins_anew(options: &RunOptions, make: &MakeEnvironment) -> Result<bool> {
    let first = environment_seed(&options.environment, options.seed, EnvironmentUser::Actor(0));
    Ok(options.checkpoints.is_some() && options.actors == 0 && !make.are_saved(first)?)
}
