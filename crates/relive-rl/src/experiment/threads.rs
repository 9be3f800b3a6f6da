//! Actors and a learner, each in a thread of its own.

use std::sync::mpsc::{Sender, channel};
use std::thread::scope;

use relive_client::ErrorKind;
use relive_env::State;

use super::evaluator::Evaluator;
use super::leaving::{Leaving, Role};
use super::local::LEARNER_REPORT_EVERY;
use super::options::{Evaluation, MakeEnvironment, RunOptions, is_due};
use super::parts::{Episodes, Parts, Who};
use super::progress::Progress;
use super::report::Report;
use super::run::Trained;
use super::saved::{self, Folder};
use crate::{Actor, Agent, Learner, Result, RlError, state};

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
    let run = Run { parts: &parts, folder: folder.as_ref(), progress: &progress };
    let mut learner = parts.learner(PREFETCHED_BATCHES)?;
    if let Some(folder) = run.folder {
        run.restore(folder, learner.as_mut())?;
    }
    let variables = learner.variables().clone();
    Crew::new(&parts, options, make_environment, learner)?.work(&run, on_report)?;
    let min_observations = agent.pace().min_observations;
    let learned_from = parts.inserts().saturating_sub(min_observations);
    let summary = progress.tally().summary(learned_from);
    Ok(Trained { summary, params: variables.get(), spec: parts.spec })
}

/// Whoever has a thread in a run.
struct Crew {
    learner: Box<dyn Learner>,
    actors: Vec<Episodes>,
    evaluator: Option<(Evaluation, Episodes)>,
}

impl Crew {
    fn new(
        parts: &Parts<'_>,
        options: &RunOptions,
        make_environment: &MakeEnvironment<'_>,
        learner: Box<dyn Learner>,
    ) -> Result<Crew> {
        let variables = learner.variables();
        let episodes = |who| parts.episodes(who, make_environment, variables);
        let actors =
            (0..options.actors).map(|number| episodes(Who::Actor(number))).collect::<Result<Vec<_>>>()?;
        let with_episodes = |evaluation| episodes(Who::Evaluator).map(|episodes| (evaluation, episodes));
        let evaluator = options.evaluation.map(with_episodes).transpose()?;
        Ok(Crew { learner, actors, evaluator })
    }

    /// Has everybody work until the run is over, or somebody fails: the first error, the learner's before the others'.
    fn work(self, run: &Run<'_>, on_report: &mut dyn FnMut(&Report)) -> Result<()> {
        let Crew { mut learner, actors, evaluator } = self;
        let (tell, told) = channel();
        scope(|threads| {
            let mut started = Vec::new();
            let mut start = |role, work: Work| {
                let tell = tell.clone();
                started.push((
                    role,
                    threads.spawn(move || {
                        let _leaving = run.leaving(role);
                        work(run, &tell)
                    }),
                ));
            };
            start(Role::Learner, Box::new(move |run, tell| learn(learner.as_mut(), run, tell)));
            for (number, episodes) in actors.into_iter().enumerate() {
                start(Role::Actor, Box::new(move |run, tell| act(number, episodes, run.progress, tell)));
            }
            if let Some((evaluation, episodes)) = evaluator {
                let work = move |run: &Run<'_>, tell: &_| evaluate(evaluation, episodes, run.progress, tell);
                start(Role::Evaluator, Box::new(work));
            }
            drop(tell);
            let _leaving = run.leaving(Role::Listener);
            told.into_iter().for_each(|report| on_report(&report));
            let mut outcome = Ok(());
            for (role, thread) in started {
                // All are asked how they have ended: a panic that nobody has asked for would be one of this thread.
                let ended = thread.join();
                let panicked = |_| Err(RlError::Panicked { who: role.name().to_owned() });
                outcome = outcome.and(ended.unwrap_or_else(panicked));
            }
            outcome
        })
    }
}

/// What a thread does, and tells.
type Work = Box<dyn FnOnce(&Run<'_>, &Sender<Report>) -> Result<()> + Send>;

/// What all threads have.
struct Run<'a> {
    parts: &'a Parts<'a>,
    folder: Option<&'a Folder>,
    progress: &'a Progress,
}

impl Run<'_> {
    fn leaving(&self, role: Role) -> Leaving<'_> {
        Leaving::new(role, self.progress, &self.parts.engine)
    }

    /// What there is no state of begins anew when the run is resumed: who acts, and where.
    fn checkpoint(&self, folder: &Folder, learner: &mut dyn Learner) -> Result<()> {
        let mut sections = vec![learner.save()];
        let state = state::save(|state| self.visit(state, &mut sections));
        saved::put(&self.parts.client, &self.parts.identity, &state)?;
        folder.save(&self.parts.engine)?;
        Ok(())
    }

    fn restore(&self, folder: &Folder, learner: &mut dyn Learner) -> Result<()> {
        let Some((identity, bytes)) = saved::get(&self.parts.client)? else { return Ok(()) };
        folder.expect(&identity, &self.parts.identity)?;
        let mut sections = Vec::new();
        state::restore("a run", &bytes, |state| self.visit(state, &mut sections))?;
        folder.announce(self.progress.tally().env_steps());
        sections.first().map_or(Ok(()), |section| learner.restore(section))
    }

    fn visit(&self, state: &mut State<'_>, sections: &mut Vec<Vec<u8>>) {
        saved::visit_sections(state, sections);
        self.progress.tally().visit(state);
        // Observations of a run in one thread, which paces itself.
        state.field(&mut 0_u64);
    }
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

fn learn(learner: &mut dyn Learner, run: &Run<'_>, tell: &Sender<Report>) -> Result<()> {
    let progress = run.progress;
    let batch_size = run.parts.agent.pace().batch_size as u64;
    let mut before = progress.tally().env_steps();
    while !progress.is_over() {
        if let Err(error) = learner.step() {
            return end(error, progress);
        }
        let steps = progress.note_learnt(batch_size);
        if steps.is_multiple_of(LEARNER_REPORT_EVERY) {
            let report = progress.tally().learner_report(learner.metrics());
            let _ = tell.send(Report::Learner(report));
        }
        if let Some(folder) = run.folder {
            let now = progress.tally().env_steps();
            if is_due(folder.every(), before, now) {
                // Its tables are closed under it when the actors have ended.
                if let Err(error) = run.checkpoint(folder, learner) {
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

/// Ends the run with `error`, unless that says nothing but that it has ended.
fn end(error: RlError, progress: &Progress) -> Result<()> {
    let was_over = progress.is_over();
    progress.end();
    match &error {
        RlError::Replay(replay) if was_over && replay.kind() == ErrorKind::Cancelled => Ok(()),
        _ => Err(error),
    }
}
