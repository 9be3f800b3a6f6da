//! The loop of a run: pulls from the plan, counts and reports its progress, and evaluates in between.

use std::ops::ControlFlow;
use std::time::Instant;

use super::pace::is_due;
use super::session::{COUNT_EVERY, OnReport, Session, shown_nodes};
use super::{Report, RunOptions, warnings};
use crate::plan::{Evaluated, next_progress};
use crate::remote::Team;
use crate::times::Lap;
use crate::{Part, Result};

impl Session {
    /// Returns the step count that schedules evaluations and checkpoints: environment steps, or learner steps if the
    /// run takes no environment steps.
    pub(super) fn steps(&self, options: &RunOptions) -> u64 {
        if options.env_steps == 0 { self.counters.learner_steps() } else { self.counters.env_steps() }
    }

    /// Returns whether the run has completed its steps.
    pub(super) fn is_done(&self, options: &RunOptions) -> bool {
        match options.learner_steps {
            Some(most) if self.counters.learner_steps() >= most => true,
            Some(_) if options.env_steps == 0 => false,
            _ => self.counters.env_steps() >= options.env_steps,
        }
    }

    /// Pulls from the plan once. Returns whether the run continues.
    fn advance(&mut self, options: &RunOptions, on_report: OnReport<'_>) -> Result<bool> {
        let position = self.position_shown();
        let Session { crew, plan, published, plan_state, .. } = self;
        let monitor = plan.monitor();
        let check = || {
            published.as_ref().map_or(Ok(()), |(driver, _)| driver.check())?;
            crew.team().map_or(Ok(()), Team::check)?;
            let nodes = || shown_nodes(published.as_ref());
            plan_state.as_mut().map_or(Ok(()), |state| state.show_now_and_then(&monitor, position, nodes))
        };
        let Some(progress) = next_progress(plan, &options.stop, check)? else { return Ok(false) };
        if let Some((driver, _)) = &self.published {
            driver.nodes().note_acted(&progress.acted);
        }
        for acted in &progress.acted {
            self.counters.note_env_steps(acted.env_steps);
            self.counters.note_times(&acted.times);
            self.workers.acted(acted);
            self.acted_by = acted.version.or(self.acted_by);
        }
        let of_workers = progress.acted.iter().map(|acted| (acted.worker, &acted.episodes));
        let mut episodes: Vec<_> =
            of_workers.flat_map(|(worker, episodes)| episodes.iter().map(move |e| (worker, e))).collect();
        // The order in which episodes end is independent of how environments are distributed over workers.
        episodes.sort_by_key(|(_, episode)| episode.ended_at);
        for (worker, episode) in episodes {
            let worker = usize::try_from(worker).unwrap_or(usize::MAX);
            on_report(&Report::Actor(self.counters.note_episode(worker, episode)))?;
        }
        if let Some(learnt) = progress.learnt {
            let before = self.counters.learner_steps();
            self.counters.note_learnt(learnt.steps, learnt.samples);
            if self.pace.is_due(before, self.counters.learner_steps(), Instant::now()) {
                let mut metrics = learnt.metrics;
                #[expect(clippy::cast_precision_loss, reason = "a count for people")]
                metrics.extend(self.version_lag().map(|lag| ("version_lag", lag as f64)));
                on_report(&Report::Learner(self.counters.learner_report(metrics)))?;
            }
        }
        if self.engine.is_none() && !progress.acted.is_empty() && self.counted.elapsed() >= COUNT_EVERY {
            // A run that resumes repeats no report of what it has counted, so the logs contain it first. A log that
            // fails ends the run at a report.
            if options.loggers.flush_files().is_ok() {
                // No other process will read these results.
                self.count()?;
            }
        }
        Ok(true)
    }

    /// Pulls from the plan until all steps are completed or the run should stop, with evaluations in between. After
    /// each pull, `after` is called with the session, and with the [steps](Self::steps) before and after it.
    pub(super) fn run(
        &mut self,
        options: &RunOptions,
        on_report: OnReport<'_>,
        after: &mut dyn FnMut(&mut Session, [u64; 2]) -> Result<()>,
    ) -> Result<()> {
        if self.counters.env_steps() == 0 {
            warnings::at_begin(self.agent.as_ref(), options)?;
        }
        // A stopped run may have left its last evaluation incomplete.
        self.evaluate_if_due(self.counters.evaluated_at(options), options, on_report)?;
        while !self.is_done(options) {
            let before = self.steps(options);
            if !self.advance(options, on_report)? {
                break;
            }
            self.evaluate_if_due(before, options, on_report)?;
            after(self, [before, self.steps(options)])?;
        }
        Ok(())
    }

    /// Evaluates if an evaluation has become due since the run was at the step `before`. Ends the run if its hook on
    /// evaluations requests it.
    fn evaluate_if_due(&mut self, before: u64, options: &RunOptions, on_report: OnReport<'_>) -> Result<()> {
        let now = self.steps(options);
        let is_due = options.evaluation.is_some_and(|evaluation| is_due(evaluation.every, before, now));
        if is_due && self.evaluate(on_report)?.is_break() {
            self.stop.complete();
        }
        Ok(())
    }

    /// Evaluates at the end, unless the last evaluation is current. The final evaluation is not saved with the run: a
    /// resumed run must give the same numbers as one that did not end here.
    pub(super) fn evaluate_at_end(&mut self, on_report: OnReport<'_>) -> Result<()> {
        if self.counters.is_evaluated() { Ok(()) } else { self.evaluate(on_report).map(drop) }
    }

    /// Evaluates, unless the run should stop: an incomplete evaluation is discarded, and repeated when the run resumes.
    /// Returns whether the run should end.
    fn evaluate(&mut self, on_report: OnReport<'_>) -> Result<ControlFlow<()>> {
        let unchanged = Ok(ControlFlow::Continue(()));
        let Some((evaluation, worker)) = &mut self.evaluator else { return unchanged };
        let (count, mut lap) = (usize::try_from(evaluation.episodes).unwrap_or(usize::MAX), Lap::begin());
        let episodes = worker.episodes(count, &self.stop)?;
        self.crew.times().add(Part::Evaluate, lap.lap());
        let Some(episodes) = episodes else { return unchanged };
        self.counters.begin_evaluation();
        for episode in &episodes {
            on_report(&Report::Evaluator(self.counters.note_evaluation(episode)))?;
        }
        let Some(weights) = worker.weights() else { return unchanged };
        self.crew.hooks().evaluation(Evaluated {
            episodes: &episodes,
            env_steps: self.counters.env_steps(),
            learner_steps: self.counters.learner_steps(),
            weights,
            spec: self.crew.spec(),
        })
    }
}
