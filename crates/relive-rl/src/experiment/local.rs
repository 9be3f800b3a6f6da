//! One thread that acts and learns in turn.

use relive_env::{Environment, State};
use relive_table::Snapshot;

use super::evaluator::Evaluator;
use super::options::{MakeEnvironment, RunOptions, is_due};
use super::pacing::Pacing;
use super::parts::{Episodes, Parts, Who};
use super::report::Report;
use super::run::Trained;
use super::saved::{self, Folder};
use super::tally::Tally;
use crate::{Actor, Agent, Learner, Result, RlError, Saveable, state};

/// Learner steps from one report to the next.
pub(crate) const LEARNER_REPORT_EVERY: u64 = 100;

pub(super) fn run(
    agent: &dyn Agent,
    options: &RunOptions,
    make_environment: &MakeEnvironment<'_>,
    on_report: &mut dyn FnMut(&Report),
) -> Result<Trained> {
    let folder = options.checkpoints.as_ref().map(Folder::open).transpose()?;
    let snapshot = folder.as_ref().map_or(Ok(None), Folder::load)?;
    let begin = |snapshot| Local::begin(agent, options, make_environment, snapshot, folder.as_ref());
    let is_resumed = snapshot.is_some();
    let mut run = begin(snapshot)?;
    if let Some(folder) = folder.as_ref() {
        run.expect_saveable()?;
        if is_resumed {
            folder.announce(run.tally.env_steps());
        }
    }
    let mut was_shown = false;
    while run.tally.env_steps() < options.env_steps {
        let before = run.tally.env_steps();
        match run.episode(options, on_report) {
            Err(RlError::Stopped) => break,
            played => played?,
        }
        let now = run.tally.env_steps();
        was_shown = options.evaluation.is_some_and(|evaluation| is_due(evaluation.every, before, now));
        if was_shown {
            run.evaluate(on_report)?;
        }
        if let Some(folder) = folder.as_ref().filter(|folder| is_due(folder.every(), before, now)) {
            // Whoever goes on and whoever resumes go through the same door, and so on with the same numbers.
            let snapshot = run.checkpoint(folder)?;
            run = begin(Some(snapshot))?;
        }
    }
    if !was_shown {
        run.evaluate(on_report)?;
    }
    Ok(run.trained())
}

/// A run between two checkpoints.
struct Local<'a> {
    parts: Parts<'a>,
    learner: Box<dyn Learner>,
    episodes: Episodes,
    evaluator: Option<Evaluator>,
    pacing: Pacing,
    tally: Tally,
}

impl<'a> Local<'a> {
    fn begin(
        agent: &'a dyn Agent,
        options: &RunOptions,
        make_environment: &MakeEnvironment<'_>,
        snapshot: Option<Snapshot>,
        folder: Option<&Folder>,
    ) -> Result<Local<'a>> {
        let parts = Parts::new(agent, options, make_environment, false, snapshot)?;
        let learner = parts.learner(0)?;
        let episodes = parts.episodes(Who::Actor(0), make_environment, learner.variables())?;
        let evaluator = options.evaluation.map(|evaluation| {
            let episodes = parts.episodes(Who::Evaluator, make_environment, learner.variables())?;
            Ok::<_, RlError>(Evaluator::new(evaluation, episodes))
        });
        let evaluator = evaluator.transpose()?;
        let (pacing, tally) = (Pacing::new(agent.pace()), Tally::new());
        let mut run = Local { parts, learner, episodes, evaluator, pacing, tally };
        if let Some((identity, state)) = saved::get(&run.parts.client)? {
            folder.map_or(Ok(()), |folder| folder.expect(&identity, &run.parts.identity))?;
            run.restore(&state)?;
        }
        Ok(run)
    }

    fn episode(&mut self, options: &RunOptions, on_report: &mut dyn FnMut(&Report)) -> Result<()> {
        let Local { learner, episodes, pacing, tally, parts, .. } = self;
        let batch_size = parts.agent.pace().batch_size as u64;
        let episode = episodes.run_episode(|actor| {
            options.stop.check()?;
            let due = pacing.observed();
            for _ in 0..due {
                learner.step()?;
                tally.note_learnt(1, batch_size);
                if tally.learner_steps().is_multiple_of(LEARNER_REPORT_EVERY) {
                    on_report(&Report::Learner(tally.learner_report(learner.metrics())));
                }
            }
            if due > 0 { actor.update(true) } else { Ok(()) }
        })?;
        on_report(&Report::Actor(tally.note(0, &episode)));
        Ok(())
    }

    fn evaluate(&mut self, on_report: &mut dyn FnMut(&Report)) -> Result<()> {
        let Local { evaluator, tally, .. } = self;
        let Some(evaluator) = evaluator else { return Ok(()) };
        evaluator.run(|episode| on_report(&Report::Evaluator(tally.note_evaluation(episode))))
    }

    /// Whether there can be checkpoints of it: asked at once, not when the first is due.
    fn expect_saveable(&mut self) -> Result<()> {
        self.episodes.environment_mut().save().map(drop).ok_or_else(unsaved)
    }

    /// Writes a checkpoint; what it holds.
    fn checkpoint(&mut self, folder: &Folder) -> Result<Snapshot> {
        let mut sections = vec![self.learner.save()];
        let evaluator = self.evaluator.as_mut().map(Evaluator::episodes_mut);
        for episodes in [Some(&mut self.episodes), evaluator].into_iter().flatten() {
            sections.push(episodes.actor_mut().save());
            sections.push(episodes.environment_mut().save().ok_or_else(unsaved)?);
        }
        let state = state::save(|state| self.visit(state, &mut sections));
        saved::put(&self.parts.client, &self.parts.identity, &state)?;
        folder.save(&self.parts.engine)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        let mut sections = Vec::new();
        state::restore("a run", bytes, |state| self.visit(state, &mut sections))?;
        let mut sections = sections.iter();
        if let Some(learner) = sections.next() {
            self.learner.restore(learner)?;
        }
        let evaluator = self.evaluator.as_mut().map(Evaluator::episodes_mut);
        for episodes in [Some(&mut self.episodes), evaluator].into_iter().flatten() {
            // Of a run with threads, or without an evaluator, there is no state of theirs.
            let (Some(actor), Some(environment)) = (sections.next(), sections.next()) else { break };
            episodes.actor_mut().restore(actor)?;
            episodes.environment_mut().restore(environment)?;
            episodes.actor_mut().update(true)?;
        }
        Ok(())
    }

    fn visit(&mut self, state: &mut State<'_>, sections: &mut Vec<Vec<u8>>) {
        saved::visit_sections(state, sections);
        self.tally.visit(state);
        self.pacing.visit(state);
    }

    fn trained(self) -> Trained {
        let min_observations = self.parts.agent.pace().min_observations;
        let learned_from = self.tally.env_steps().saturating_sub(min_observations);
        Trained {
            summary: self.tally.summary(learned_from),
            params: self.learner.variables().get(),
            spec: self.parts.spec,
        }
    }
}

pub(crate) fn unsaved() -> RlError {
    RlError::Unsuited {
        expected: "an environment that can save its state, since there are to be checkpoints (without a thread of their own for actors, all \
                   native environments can)",
        got: "none of its state to tell".to_owned(),
    }
}
