//! Actors and a learner, each in a thread of its own.

use std::sync::mpsc::{Sender, channel};
use std::thread::{ScopedJoinHandle, scope};

use relive_client::ErrorKind;

use super::evaluator::Evaluator;
use super::local::LEARNER_REPORT_EVERY;
use super::options::{Evaluation, MakeEnvironment, RunOptions, is_due};
use super::parts::{Episodes, Parts, Who};
use super::progress::Progress;
use super::report::Report;
use super::run::Trained;
use super::saved::{self, Folder};
use crate::{Actor, Agent, Learner, Pace, Result, RlError, state};

/// Batches that a learner fetches while it learns.
pub(crate) const PREFETCHED_BATCHES: usize = 1;

pub(super) fn run(
    agent: &dyn Agent,
    options: &RunOptions,
    make_environment: &MakeEnvironment<'_>,
    on_report: &mut dyn FnMut(&Report),
) -> Result<Trained> {
    let folder = options.checkpoints.as_ref().map(Folder::open).transpose()?;
    let snapshot = folder.as_ref().map_or(Ok(None), Folder::load)?;
    let parts = Parts::new(agent, options, make_environment, true, snapshot)?;
    let progress = Progress::new(options);
    let mut learner = parts.learner(PREFETCHED_BATCHES)?;
    if let Some(folder) = &folder {
        restore(&parts, folder, learner.as_mut(), &progress)?;
    }
    let variables = learner.variables().clone();
    let (tell, told) = channel();
    let mut loops = Vec::with_capacity(options.actors);
    for number in 0..options.actors {
        loops.push(parts.episodes(Who::Actor(number), make_environment, &variables)?);
    }
    let evaluator = match options.evaluation {
        Some(evaluation) => Some((evaluation, parts.episodes(Who::Evaluator, make_environment, &variables)?)),
        None => None,
    };
    let outcome = scope(|threads| {
        let (progress, parts, folder) = (&progress, &parts, folder.as_ref());
        let tells = tell.clone();
        let learning = threads.spawn(move || {
            let ended = learn(learner.as_mut(), parts, folder, progress, &tells);
            // Actors may be waiting for a learner that does not learn any more.
            parts.engine.close();
            ended
        });
        let tells = tell.clone();
        let evaluating = evaluator.map(|(evaluation, episodes)| {
            threads.spawn(move || evaluate(evaluation, episodes, progress, &tells))
        });
        let acting: Vec<_> = loops
            .into_iter()
            .enumerate()
            .map(|(number, episodes)| {
                let tells = tell.clone();
                threads.spawn(move || {
                    let ended = act(number, episodes, progress, &tells);
                    if progress.actor_is_done() {
                        // The learner may be waiting for experience that does not come any more.
                        parts.engine.close();
                    }
                    ended
                })
            })
            .collect();
        drop(tell);
        told.into_iter().for_each(|report| on_report(&report));
        let acted = acting.into_iter().try_for_each(|thread| joined(thread, "an actor"));
        let evaluated = evaluating.map_or(Ok(()), |thread| joined(thread, "the evaluator"));
        joined(learning, "the learner").and(acted).and(evaluated)
    });
    outcome?;
    let Pace { batch_size, min_observations, .. } = agent.pace();
    let learned_from = parts.inserts().saturating_sub(min_observations);
    let summary = progress.tally().summary(batch_size, learned_from);
    Ok(Trained { summary, params: variables.get(), spec: parts.spec })
}

fn act(number: usize, mut episodes: Episodes, progress: &Progress, tell: &Sender<Report>) -> Result<()> {
    while !progress.is_over() {
        let played = episodes.run_episode(|actor| {
            progress.stop().check()?;
            actor.update(false)
        });
        match played {
            Ok(episode) => {
                let report = progress.note(number, &episode);
                // Nobody listens any more when the run has failed.
                let _ = tell.send(Report::Actor(report));
            }
            Err(RlError::Stopped) => progress.end(),
            Err(error) => return end(error, progress),
        }
    }
    Ok(())
}

fn learn(
    learner: &mut dyn Learner,
    parts: &Parts<'_>,
    folder: Option<&Folder>,
    progress: &Progress,
    tell: &Sender<Report>,
) -> Result<()> {
    let mut before = progress.tally().env_steps();
    while !progress.is_over() {
        if let Err(error) = learner.step() {
            return end(error, progress);
        }
        let steps = progress.note_learner_step();
        if steps.is_multiple_of(LEARNER_REPORT_EVERY) {
            let report = progress.tally().learner_report(learner);
            let _ = tell.send(Report::Learner(report));
        }
        if let Some(folder) = folder {
            let now = progress.tally().env_steps();
            if is_due(folder.every(), before, now) {
                // Its tables are closed under it when the actors have ended.
                if let Err(error) = checkpoint(learner, parts, folder, progress) {
                    return end(error, progress);
                }
            }
            before = now;
        }
    }
    Ok(())
}

/// Plays again and again, whenever there have been enough steps, and when the run is over.
fn evaluate(
    evaluation: Evaluation,
    episodes: Episodes,
    progress: &Progress,
    tell: &Sender<Report>,
) -> Result<()> {
    let mut evaluator = Evaluator::new(evaluation, episodes);
    let mut steps = progress.tally().env_steps();
    loop {
        let is_over = progress.wait_for(steps.saturating_add(evaluation.every));
        steps = progress.tally().env_steps();
        let told = evaluator.run(|episode| {
            let _ = tell.send(Report::Evaluator(progress.tally().note_evaluation(episode)));
        });
        if let Err(error) = told {
            return end(error, progress);
        }
        if is_over {
            return Ok(());
        }
    }
}

/// What there is no state of begins anew when the run is resumed: who acts, and where.
fn checkpoint(
    learner: &mut dyn Learner,
    parts: &Parts<'_>,
    folder: &Folder,
    progress: &Progress,
) -> Result<()> {
    let mut sections = vec![learner.save()];
    let state = state::save(|state| {
        saved::visit_sections(state, &mut sections);
        progress.tally().visit(state);
        state.field(&mut 0_u64);
    });
    saved::put(&parts.client, &parts.identity, &state)?;
    folder.save(&parts.engine)?;
    Ok(())
}

fn restore(parts: &Parts<'_>, folder: &Folder, learner: &mut dyn Learner, progress: &Progress) -> Result<()> {
    let Some((identity, bytes)) = saved::get(&parts.client)? else { return Ok(()) };
    folder.expect(&identity, &parts.identity)?;
    let mut sections = Vec::new();
    state::restore("a run", &bytes, |state| {
        saved::visit_sections(state, &mut sections);
        progress.tally().visit(state);
        state.field(&mut 0_u64);
    })?;
    folder.announce(progress.tally().env_steps());
    sections.first().map_or(Ok(()), |section| learner.restore(section))
}

/// Ends the run with `error`, unless that says nothing but that it has ended.
fn end(error: RlError, progress: &Progress) -> Result<()> {
    let was_over = progress.is_over();
    progress.end();
    match &error {
        RlError::Replay(replay) if was_over && replay.kind() == ErrorKind::Cancelled => Ok(()),
        _ => Err(error),
    }
}

fn joined(thread: ScopedJoinHandle<'_, Result<()>>, who: &str) -> Result<()> {
    thread.join().unwrap_or_else(|_| Err(RlError::Panicked { who: who.to_owned() }))
}
