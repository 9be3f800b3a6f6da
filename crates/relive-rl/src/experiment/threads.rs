//! Actors and a learner, each in a thread of its own.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{ScopedJoinHandle, scope};

use relive_client::ErrorKind;
use relive_env::Environment;

use super::options::{MakeEnvironment, RunOptions};
use super::run::{Parts, environment_seed};
use super::summary::{EpisodeReport, Summary, Tally};
use crate::dqn::{DqnActor, DqnConfig, DqnLearner, TABLE};
use crate::{Actor, EnvironmentLoop, Episode, Learner, Result, RlError};

/// Batches that a learner fetches while it learns.
const PREFETCHED_BATCHES: usize = 1;

/// What the threads of a run share.
#[derive(Default)]
struct Progress {
    env_steps: AtomicU64,
    learner_steps: AtomicU64,
    /// Somebody has failed, or there are steps enough.
    is_over: AtomicBool,
}

pub(super) fn run(
    config: &DqnConfig,
    options: &RunOptions,
    make_environment: &MakeEnvironment<'_>,
    on_episode: &mut dyn FnMut(&EpisodeReport),
) -> Result<Summary> {
    let spec = make_environment(environment_seed(options, 0))?.spec().clone();
    let parts = Parts::new(config, options, &spec, config.paced_table()?)?;
    let learner = parts.learner(PREFETCHED_BATCHES)?;
    let (progress, mut tally) = (Progress::default(), Tally::new());
    let (tell, told) = channel();
    let mut loops = Vec::with_capacity(options.actors);
    for number in 0..options.actors {
        let environment = make_environment(environment_seed(options, number))?;
        let actor = parts.actor(number, learner.variables())?;
        loops.push(EnvironmentLoop::new(environment, actor)?);
    }
    let outcome = scope(|threads| {
        let progress = &progress;
        let engine = parts.engine.clone();
        let learning = threads.spawn(move || {
            let ended = learn(learner, progress);
            // Actors may be waiting for a learner that does not learn any more.
            engine.close();
            ended
        });
        let acting: Vec<_> = loops
            .into_iter()
            .enumerate()
            .map(|(number, episodes)| {
                let tell = tell.clone();
                threads.spawn(move || act(number, episodes, options.env_steps, progress, &tell))
            })
            .collect();
        drop(tell);
        for (number, episode) in told {
            on_episode(&tally.note(number, &episode, progress.learner_steps.load(Ordering::Relaxed)));
        }
        let acted = acting.into_iter().try_for_each(|thread| joined(thread, "an actor"));
        // The learner may be waiting for experience that does not come any more.
        progress.is_over.store(true, Ordering::Relaxed);
        parts.engine.close();
        joined(learning, "the learner").and(acted)
    });
    outcome?;
    let inserts = parts.engine.table(TABLE).map_or(0, |table| table.info().inserts);
    let inserts = u64::try_from(inserts).unwrap_or(0);
    let learner_steps = progress.learner_steps.load(Ordering::Relaxed);
    let learned_from = inserts.saturating_sub(config.steps_before_learning());
    Ok(tally.summary(learner_steps, config.batch_size, learned_from))
}

fn act(
    number: usize,
    mut episodes: EnvironmentLoop<Box<dyn Environment>, DqnActor>,
    env_steps: u64,
    progress: &Progress,
    tell: &Sender<(usize, Episode)>,
) -> Result<()> {
    while progress.env_steps.load(Ordering::Relaxed) < env_steps && !progress.is_over.load(Ordering::Relaxed)
    {
        match episodes.run_episode(|actor| actor.update(false)) {
            Ok(episode) => {
                progress.env_steps.fetch_add(episode.length, Ordering::Relaxed);
                // Nobody listens any more when the run is over.
                let _ = tell.send((number, episode));
            }
            Err(error) => return end(error, progress),
        }
    }
    Ok(())
}

fn learn(mut learner: DqnLearner, progress: &Progress) -> Result<()> {
    while !progress.is_over.load(Ordering::Relaxed) {
        match learner.step() {
            Ok(()) => progress.learner_steps.store(learner.steps(), Ordering::Relaxed),
            Err(error) => return end(error, progress),
        }
    }
    Ok(())
}

/// Ends the run with `error`, unless that says nothing but that it has ended.
fn end(error: RlError, progress: &Progress) -> Result<()> {
    let was_over = progress.is_over.swap(true, Ordering::Relaxed);
    match &error {
        RlError::Replay(replay) if was_over && replay.kind() == ErrorKind::Cancelled => Ok(()),
        _ => Err(error),
    }
}

fn joined(thread: ScopedJoinHandle<'_, Result<()>>, who: &str) -> Result<()> {
    thread.join().unwrap_or_else(|_| Err(RlError::Panicked { who: who.to_owned() }))
}
