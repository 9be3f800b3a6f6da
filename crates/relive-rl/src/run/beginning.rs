//! How a run begins, or goes on: from options and tables to a session.

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
use crate::remote::{Driver, Layouts, Team};
use crate::seeds::{Who, environment_seed};
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
        let spec = make.spec(environment_seed(&options.environment, options.seed, Who::Actor(0)))?;
        let begins_anew = begins_anew(options, make)?;
        let identity = identity(agent.as_ref(), options, &spec);
        if let (Tables::Own(Some(snapshot)), Some(folder)) = (&tables, folder) {
            folder.expect_run(snapshot, &identity)?;
        }
        let mut opened = Opened::of(agent.as_ref(), options, tables)?;
        // Before anything is changed in tables that may be of another run.
        let state = opened.state(&identity)?;
        let weights = WeightStore::default();
        let driver = driver(options, (&opened.client, &identity), &weights, opened.checkpoints)?;
        if let Some((watch, engine)) = options.watch.as_ref().zip(opened.engine.as_ref()) {
            watch.show(engine);
        }
        let (counters, saved) = opened.resumed(state.as_deref())?;
        let of = (&opened, driver.as_ref(), &identity);
        let crew = crew(agent, (options, make), of, (spec, begins_anew), (weights, saved))?;
        let plan = agent.plan(&crew)?;
        let evaluator = evaluator(options, &crew)?;
        let workers = driver.as_ref().map_or_else(WorkerStats::default, |driver| driver.stats().clone());
        let Opened { engine, client, lease, .. } = opened;
        let published = driver.map(|driver| driver.published(lease)).transpose()?;
        let (plan_state, log_writer) = seen(options, (&client, &identity), (crew.times(), &workers))?;
        crew.team().map_or(Ok(()), |team| team.announce(&client, &identity))?;
        options.begun.iter().for_each(Begun::tell);
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

/// What the run is of.
fn identity(agent: &dyn Agent, options: &RunOptions, spec: &EnvironmentSpec) -> Identity {
    let mut settings = agent.settings();
    settings.extend(options.data.iter().map(|data| ("data".to_owned(), data.display().to_string())));
    Identity::new((agent.name(), settings), &options.environment, spec, options.seed)
}

/// What the plan of the run gets.
fn crew(
    agent: &Arc<dyn Agent>,
    (options, make): (&RunOptions, &MakeEnvironment),
    (opened, driver, identity): (&Opened, Option<&Arc<Driver>>, &Identity),
    (spec, begins_anew): (EnvironmentSpec, bool),
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
        data: options.data.clone(),
        checkpoints: opened.checkpoints,
        begins_anew,
        weights,
        parts,
        client: opened.client.clone(),
        times: SharedTimes::default(),
        hooks,
        team,
    }))
}

/// What has workers in other processes act, if there are to be some.
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

/// What shows the run to others, and what it logs, if anybody can look.
fn seen(
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

/// The worker that plays evaluations, if there are to be any.
fn evaluator(options: &RunOptions, crew: &Crew) -> Result<Option<(Evaluation, RolloutWorker)>> {
    options.evaluation.map(|evaluation| Ok((evaluation, crew.evaluator()?))).transpose()
}

/// Whether environments of a run begin anew after each of its checkpoints, though they are where it is saved.
fn begins_anew(options: &RunOptions, make: &MakeEnvironment) -> Result<bool> {
    let first = environment_seed(&options.environment, options.seed, Who::Actor(0));
    Ok(options.checkpoints.is_some() && options.actors == 0 && !make.are_saved(first)?)
}
