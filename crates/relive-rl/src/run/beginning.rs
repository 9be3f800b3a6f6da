//! The start of a run, new or resumed: creates a session from options and tables.

use std::sync::Arc;
use std::time::Instant;

use relive_engine::Engine;
use relive_env::EnvironmentSpec;

use super::checkpoints::Folder;
use super::opening::{Opened, Tables};
use super::options::Begun;
use super::pace::ReportPace;
use super::session::Session;
use super::warm_start::earlier_learner;
use super::{Evaluation, RunOptions};
use crate::acting::RolloutWorker;
use crate::contracts::WeightStore;
use crate::identity::Identity;
use crate::plan::{Agent, Crew, CrewParts, MakeEnvironment, Role, policies_of};
use crate::recorded::RunData;
use crate::remote::{Driver, Layouts, Started, Team};
use crate::seeds::{EnvironmentUser, environment_seed};
use crate::watching::{LogWriter, Origin, PlanStateWriter, WorkerStats};
use crate::{Purpose, Result, RlError};

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
        let driver = driver(options, &opened, &identity, &weights)?;
        if let Some((watch, engine)) = options.watch.as_ref().zip(opened.engine.as_ref()) {
            watch.show(engine);
        }
        let (counters, saved) = opened.resumed(state.as_deref())?;
        let warm_start = options.warm_start.as_deref().filter(|_| state.is_none());
        let role = role(options, driver.as_ref(), opened.engine.as_ref())?;
        let layouts = || Layouts::of(agent, &spec, options.seed);
        let crew = Crew::new(CrewParts {
            env_steps: options.env_steps,
            data,
            generation: opened.checkpoints,
            is_resumed: state.is_some(),
            stop: options.stop.clone(),
            begins_anew,
            weights,
            parts: saved,
            earlier_learner: warm_start.map(|place| earlier_learner(place, &identity)).transpose()?,
            hooks: options.hooks.of_run(layouts)?,
            team: team(options, &identity, layouts)?,
            ..CrewParts::new(&identity, role, policies_of(agent), make, spec.clone(), &opened.client)
        });
        let plan = agent.plan(&crew)?;
        crew.free_data();
        let evaluator = evaluator(options, &crew)?;
        let workers = driver.as_ref().map_or_else(WorkerStats::default, |driver| driver.stats().clone());
        let Opened { engine, client, lease, .. } = opened;
        let published = driver.map(|driver| driver.published(lease)).transpose()?;
        let is_observed = options.watch.is_some() || options.processes.is_some();
        let plan_state = is_observed
            .then(|| PlanStateWriter::new(&client, &identity, &options.stop, crew.times(), &workers));
        let log_writer = options.log_lines.as_ref().filter(|_| is_observed);
        let log_writer =
            log_writer.map(|lines| LogWriter::start(&client, Origin::Driver, lines)).transpose()?;
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

/// Returns the role of this process, which learns, and the location of the workers.
fn role(options: &RunOptions, driver: Option<&Arc<Driver>>, engine: Option<&Engine>) -> Result<Role> {
    match (driver, engine) {
        (None, Some(engine)) => Ok(Role::Here { actors: options.actors, engine: engine.clone() }),
        (Some(driver), _) => Ok(Role::Driver(Arc::clone(driver))),
        (None, None) => Err(RlError::Order { call: "a run on a server", needs: "processes" }),
    }
}

/// Returns the team of learners, if the run has several.
fn team(
    options: &RunOptions,
    identity: &Identity,
    layouts: impl FnOnce() -> Result<Layouts>,
) -> Result<Option<Arc<Team>>> {
    let Some(count) = options.learners.filter(|count| *count > 1) else { return Ok(None) };
    let RunOptions { actors, env_steps, stop, .. } = options;
    Team::open(count, *actors, *env_steps, identity, layouts()?, stop).map(Some)
}

/// Returns the driver, if workers are other processes.
fn driver(
    options: &RunOptions,
    opened: &Opened,
    identity: &Identity,
    weights: &WeightStore,
) -> Result<Option<Arc<Driver>>> {
    let Some(processes) = &options.processes else { return Ok(None) };
    let started = Started {
        workers: options.actors,
        without_nodes: processes.started(options.actors),
        checkpoints: opened.checkpoints,
    };
    let driver = Driver::new(&opened.client, identity, weights.clone(), started, &options.stop)?;
    Ok(Some(Arc::new(driver)))
}

/// Returns the worker for evaluations, if the options request them.
fn evaluator(options: &RunOptions, crew: &Crew) -> Result<Option<(Evaluation, RolloutWorker)>> {
    options.evaluation.map(|evaluation| Ok((evaluation, crew.evaluator()?))).transpose()
}

/// Returns whether environments in the process that writes checkpoints reset after each checkpoint.
fn begins_anew(options: &RunOptions, make: &MakeEnvironment) -> Result<bool> {
    let first = environment_seed(&options.environment, options.seed, EnvironmentUser::Actor(0));
    Ok(options.checkpoints.is_some() && options.actors == 0 && !make.are_saved(first, Purpose::Training)?)
}
