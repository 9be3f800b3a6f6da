//! A run from its beginning to its end.

use std::path::Path;
use std::sync::Arc;

use super::checkpoints::Folder;
use super::opening::Tables;
use super::schedule::CheckpointSchedule;
use super::session::{OnReport, Session, Trained};
use super::{Report, RunOptions, on_server, warnings};
use crate::limits::{MAX_LEARNERS, MAX_WORKERS};
use crate::logging::Logger;
use crate::plan::{Agent, MakeEnvironment};
use crate::times::Lap;
use crate::{Result, RlError};

/// Trains an agent according to its plan, and reports progress.
///
/// With no [actors](RunOptions::actors), one thread alternates between acting and learning, and the same seed gives the
/// same numbers, even if the run is saved, killed and resumed. Otherwise each actor is a thread or a process. An
/// on-policy plan gives the same results regardless of how many actors there are and where they run.
///
/// # Errors
/// A setting is out of range, the agent cannot act in the environment, or the state of a part cannot be saved;
/// otherwise the first error of the plan. A log that cannot be written ends the run with its result and
/// [`Trained::unsaved`].
///
/// # Panics
/// Panics if it is called inside an async task of a Tokio runtime, because a run blocks its thread: call it in
/// `tokio::task::spawn_blocking`.
pub fn train(
    agent: &Arc<dyn Agent>,
    options: &RunOptions,
    make: &MakeEnvironment,
    on_report: &mut dyn FnMut(&Report),
) -> Result<Trained> {
    validate(agent.as_ref(), options)?;
    let (mut loggers, mut unlogged) = (options.loggers.clone(), None);
    let mut handle_report = |report: &Report| {
        on_report(report);
        if unlogged.is_none()
            && let Err(error) = loggers.write(report)
        {
            // A run must not continue without its log.
            options.stop.stop();
            unlogged = Some(error);
        }
        Ok(())
    };
    let trained = match options.processes.as_ref().and_then(|processes| processes.server.as_ref()) {
        Some(server) => on_server::train(server, agent, options, make, &mut handle_report),
        None => train_here(agent, options, make, &mut handle_report),
    };
    let unlogged = unlogged.or_else(|| loggers.flush().err());
    let trained = trained?;
    warnings::at_end(&trained.summary);
    Ok(Trained { unsaved: unlogged.or(trained.unsaved), ..trained })
}

/// Checks that an agent can be trained with the given options, to the extent that this is possible before the first
/// step. Does everything that a run does before its first step, in a single process, including loading recorded
/// episodes. Saves nothing.
///
/// # Errors
/// The errors of [`train`] before its first step.
pub fn check(agent: &Arc<dyn Agent>, options: &RunOptions, make: &MakeEnvironment) -> Result<()> {
    validate(agent.as_ref(), options)?;
    let alone = RunOptions {
        learners: None,
        processes: None,
        checkpoints: None,
        watch: None,
        begun: None,
        ..options.clone()
    };
    Session::begin(agent, &alone, make, Tables::Own(None), None).map(drop)
}

/// Checks that settings and options are within their ranges and compatible.
fn validate(agent: &dyn Agent, options: &RunOptions) -> Result<()> {
    agent.validate()?;
    if !u32::try_from(options.actors).is_ok_and(|actors| actors <= MAX_WORKERS) {
        return Err(RlError::setting("actors", options.actors, format!("at most {MAX_WORKERS}")));
    }
    if options.processes.is_some() && options.actors == 0 {
        return Err(RlError::setting("actors", 0, "at least 1 if the actors are processes"));
    }
    if options.hooks.sees_rollouts() && options.processes.is_some() {
        let expected =
            "none if the workers are processes, because their steps do not pass through this process";
        return Err(RlError::setting("on_step", "a function", expected));
    }
    if options.evaluation.is_some_and(|evaluation| evaluation.episodes == 0) {
        return Err(RlError::setting("evaluation.episodes", 0, "at least 1"));
    }
    validate_learners(options)?;
    options.data.as_ref().map_or(Ok(()), |data| validate_data(data, agent, options))
}

/// Checks that a run can learn from recorded data with the given agent and options.
fn validate_data(data: &Path, agent: &dyn Agent, options: &RunOptions) -> Result<()> {
    if options.actors > 0 {
        return Err(RlError::setting(
            "actors",
            options.actors,
            "0 for a run that learns from data, because it does not act",
        ));
    }
    if options.env_steps > 0 {
        let expected = "0 for a run that learns from data: set learner_steps instead";
        return Err(RlError::setting("env_steps", options.env_steps, expected));
    }
    if options.learner_steps.is_none() {
        return Err(RlError::setting(
            "learner_steps",
            "not set",
            "set for a run that learns from data, because it determines when the run ends",
        ));
    }
    if agent.tables()?.is_empty() {
        let expected =
            "none for an agent without a replay table, which learns only from its own newest steps";
        return Err(RlError::setting("data", data.display(), expected));
    }
    Ok(())
}

/// Checks that the run supports the given number of learners.
fn validate_learners(options: &RunOptions) -> Result<()> {
    let Some(count) = options.learners else { return Ok(()) };
    let refused = |expected: &'static str| Err(RlError::setting("learners", count, expected));
    if !(1..=MAX_LEARNERS).contains(&count) {
        return refused("from 1 to 64");
    }
    if count == 1 {
        return Ok(());
    }
    if options.data.is_some() {
        return refused("1 for a run that learns from data, because only one process reads the data");
    }
    if options.actors == 0 {
        return refused(
            "1 without actors: a single thread that acts and learns cannot wait for other learners",
        );
    }
    if options.processes.as_ref().is_some_and(|processes| processes.server.is_some()) {
        return refused(
            "1 if the tables are on a server, because the learners could lose the server at different times",
        );
    }
    if options.watch.is_none() {
        return Err(RlError::Order {
            call: "several learners",
            needs: "tables that RunOptions::watch serves",
        });
    }
    Ok(())
}

/// Runs with tables in this process.
fn train_here(
    agent: &Arc<dyn Agent>,
    options: &RunOptions,
    make: &MakeEnvironment,
    on_report: OnReport<'_>,
) -> Result<Trained> {
    let folder = options.checkpoints.as_ref().map(Folder::open).transpose()?;
    let snapshot = folder.as_ref().map_or(Ok(None), Folder::load)?;
    let is_resumed = snapshot.is_some();
    let begin = |tables| Session::begin(agent, options, make, tables, folder.as_ref());
    let mut session = begin(Tables::Own(snapshot))?;
    let Some(folder) = &folder else {
        session.run(options, on_report, &mut |_, _| Ok(()))?;
        session.evaluate_at_end(on_report)?;
        return session.end();
    };
    begin_saved(&session, options, is_resumed.then_some(folder))?;
    let mut saved = is_resumed.then(|| session.position());
    let mut schedule = CheckpointSchedule::begin(folder.every(), &session);
    session.run(options, on_report, &mut |session, steps| {
        if !schedule.is_now(session, steps) {
            return Ok(());
        }
        let mut lap = Lap::begin();
        let (snapshot, written) = session.checkpoint(folder, &options.loggers)?;
        match written {
            Ok(()) => saved = Some(session.position()),
            Err(error) => {
                tracing::error!("the run continues without this checkpoint, until the next one: {error}");
            }
        }
        if let Some(snapshot) = snapshot.filter(|_| options.actors == 0) {
            // A continuing run takes the same steps as a resumed one, and therefore gives the same numbers.
            session.end_plan();
            let again = begin(Tables::Again(snapshot, session.identity.clone()))?;
            let before = std::mem::replace(session, again);
            session.counters.continue_clocks(&before.counters);
        }
        session.note_saving(lap.lap());
        Ok(())
    })?;
    let mut unsaved = None;
    if saved != Some(session.position()) {
        // A longer run can resume from here, and a stopped run loses nothing.
        unsaved = session.checkpoint(folder, &options.loggers)?.1.err();
    }
    session.evaluate_at_end(on_report)?;
    Ok(Trained { unsaved, ..session.end()? })
}

/// Logs how a saved run begins. If it is resumed from a folder, truncates its logs to that state.
fn begin_saved(session: &Session, options: &RunOptions, resumed: Option<&Folder>) -> Result<()> {
    if session.begins_anew() {
        let name = &options.environment;
        tracing::warn!(
            "{name} cannot save its state: its current episodes restart after each checkpoint and when the run \
             is resumed, in a new environment without what its wrappers have learned, such as running means; \
             everything else is restored. With actors, environments are only created anew when the run is resumed"
        );
    }
    let Some(folder) = resumed else { return Ok(()) };
    folder.announce(session.steps(options), session.is_done(options));
    session.marks()?.map_or(Ok(()), |marks| options.loggers.truncate(marks))
}
