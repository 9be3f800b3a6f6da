//! A run from its beginning to its end.

use std::sync::Arc;

use super::saved::Folder;
use super::session::{Session, Tables, Trained};
use super::{Report, RunOptions, is_due, on_server};
use crate::plan::MakeEnvironment;
use crate::times::Lap;
use crate::{Agent, Result, RlError};

/// Trains an agent by its plan, and tells of it on the way.
///
/// With no [actors](RunOptions::actors) one thread acts and learns in turn, and the same seed gives the same numbers, also when the run is
/// saved, killed and resumed. Otherwise each actor is a thread, or a process. An on-policy plan gives the same numbers with any number of actors,
/// wherever they are.
///
/// # Errors
/// Settings out of range, an environment that the agent cannot act in, or the first error of the plan.
pub fn train(
    agent: &Arc<dyn Agent>,
    options: &RunOptions,
    make: &MakeEnvironment,
    on_report: &mut dyn FnMut(&Report),
) -> Result<Trained> {
    agent.validate()?;
    if options.processes.is_some() && options.actors == 0 {
        return Err(RlError::setting("actors", 0, "at least 1, where they are processes"));
    }
    if options.hooks.sees_rollouts() && options.processes.is_some() {
        let expected = "none where the workers are processes, from which steps do not come here";
        return Err(RlError::setting("on_step", "a function", expected));
    }
    if options.data.is_some()
        && (options.env_steps > 0 || options.actors > 0 || options.learner_steps.is_none())
    {
        let got = format!("{} env_steps, {} actors", options.env_steps, options.actors);
        let expected = "none of both, with learner_steps, where a run learns from data";
        return Err(RlError::setting("what a run is to do", got, expected));
    }
    if let Some(data) = options.data.as_ref().filter(|_| agent.tables().is_ok_and(|tables| tables.is_empty()))
    {
        let expected =
            "none for an agent without a replay table, which learns only from what it has just done";
        return Err(RlError::setting("data", data.display(), expected));
    }
    match options.processes.as_ref().and_then(|processes| processes.server.as_ref()) {
        Some(server) => on_server::train(server, agent, options, make, on_report),
        None => train_here(agent, options, make, on_report),
    }
}

/// A run whose tables are in this process.
fn train_here(
    agent: &Arc<dyn Agent>,
    options: &RunOptions,
    make: &MakeEnvironment,
    on_report: &mut dyn FnMut(&Report),
) -> Result<Trained> {
    let folder = options.checkpoints.as_ref().map(Folder::open).transpose()?;
    let snapshot = folder.as_ref().map_or(Ok(None), Folder::load)?;
    let is_resumed = snapshot.is_some();
    let begin = |snapshot| Session::begin(agent, options, make, Tables::Own(snapshot), folder.as_ref());
    let mut session = begin(snapshot)?;
    if session.begins_anew() {
        let name = &options.environment;
        tracing::warn!(
            "{name} cannot save its state: its episodes begin anew after each checkpoint, and when the run is resumed; all else goes on as it was"
        );
    }
    if let Some(folder) = folder.as_ref().filter(|_| is_resumed) {
        folder.announce(session.env_steps());
    }
    session.run(options, on_report, &mut |session, [before, now]| {
        let Some(folder) = folder.as_ref().filter(|folder| is_due(folder.every(), before, now)) else {
            return Ok(());
        };
        let mut lap = Lap::begin();
        let snapshot = session.checkpoint(folder)?;
        if options.actors == 0 {
            // The run that goes on takes the same way as one that is resumed, and so gives the same numbers.
            *session = begin(Some(snapshot))?;
        }
        session.note_saving(lap.lap());
        Ok(())
    })?;
    if let Some(folder) = folder.as_ref().filter(|_| options.stop.is_stopped()) {
        // Nothing of what was done until then is lost.
        session.checkpoint(folder)?;
    }
    session.end()
}
