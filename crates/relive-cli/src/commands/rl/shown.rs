//! Shows the progress of a run on stderr if that is a terminal.

use indicatif::ProgressBar;
use relive_rl::run::{Report, RunOptions};

use super::figures::Watcher;
use crate::progress;
use crate::units::per_second;

/// The steps that measure a run's progress: steps in the environment, or the learner's steps if the run takes none in
/// the environment.
#[derive(Debug, Clone, Copy)]
pub(super) enum Steps {
    Environment(u64),
    Learner(u64),
}

impl Steps {
    pub(super) fn of(run: &RunOptions) -> Steps {
        match run.env_steps {
            0 => Steps::Learner(run.learner_steps.unwrap_or(0)),
            steps => Steps::Environment(steps),
        }
    }

    /// Returns the planned number of steps.
    pub(super) fn length(self) -> u64 {
        match self {
            Steps::Environment(steps) | Steps::Learner(steps) => steps,
        }
    }

    /// Returns the number of steps at a report, limited to the planned number.
    pub(super) fn at(self, report: &Report) -> u64 {
        match self {
            Steps::Environment(steps) => report.env_steps().min(steps),
            Steps::Learner(steps) => report.learner_steps().min(steps),
        }
    }
}

/// A bar with a line of figures.
pub(super) struct Shown {
    bar: ProgressBar,
    steps: Steps,
}

impl Shown {
    pub(super) fn new(run: &RunOptions) -> Shown {
        let steps = Steps::of(run);
        Shown { bar: progress::bar(steps.length(), progress::PLAIN), steps }
    }

    #[expect(clippy::cast_precision_loss, reason = "rates for people")]
    pub(super) fn note(&self, report: &Report, watcher: &Watcher) {
        self.bar.set_position(self.steps.at(report));
        let shown = watcher.evaluator_return();
        let Report::Actor(episode) = report else {
            if let (Steps::Learner(_), Some(mean)) = (self.steps, shown) {
                self.bar.set_message(format!("{} learner steps, return {mean:.2}", report.learner_steps()));
            }
            return;
        };
        let rate = per_second(episode.env_steps as f64 / episode.seconds.max(f64::MIN_POSITIVE));
        let shown = shown.map_or_else(String::new, |mean| format!(" ({mean:.2} without exploration)"));
        self.bar.set_message(format!(
            "episode {}: return {:.2}{shown}, {rate} steps/s, {} learner steps",
            episode.episode,
            watcher.mean(),
            episode.learner_steps
        ));
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
