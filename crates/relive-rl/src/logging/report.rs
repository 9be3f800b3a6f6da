//! The reports from a run.

use serde::Serialize;

/// All labels of reports.
pub(crate) const LABELS: [&str; 3] = [ACTOR, EVALUATOR, LEARNER];
const ACTOR: &str = "actor";
const EVALUATOR: &str = "evaluator";
const LEARNER: &str = "learner";

/// A report from a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// An actor finished an episode.
    Actor(EpisodeReport),
    /// The evaluator finished an episode.
    Evaluator(EpisodeReport),
    /// The learner took some steps.
    Learner(LearnerReport),
}

/// An episode, and the state of the run at its end.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EpisodeReport {
    /// The number of the actor.
    pub actor: usize,
    /// The number of the episode, counted from 1. All actors share one count; the evaluator has its own.
    pub episode: u64,
    /// The number of steps of the episode.
    pub episode_length: u64,
    /// The undiscounted sum of its rewards.
    pub episode_return: f64,
    /// The number of steps of all actors.
    pub env_steps: u64,
    /// The number of steps of the learner.
    pub learner_steps: u64,
    /// Seconds since the start of the run.
    pub seconds: f64,
    /// The duration of the episode in seconds, including the time in which its worker waited, and in one thread the
    /// time in which the agent learned.
    pub duration_s: f64,
}

impl EpisodeReport {
    /// Returns the number of steps of the episode per second. A duration that the clock cannot measure counts as a
    /// nanosecond.
    #[expect(clippy::cast_precision_loss, reason = "counts for people")]
    #[must_use]
    pub fn steps_per_second(&self) -> f64 {
        self.episode_length as f64 / self.duration_s.max(1e-9)
    }
}

/// The state of the learner.
#[derive(Debug, Clone, PartialEq)]
pub struct LearnerReport {
    /// The number of steps of the learner.
    pub learner_steps: u64,
    /// The number of steps of all actors.
    pub env_steps: u64,
    /// The time since the learner's first step.
    pub walltime_s: f64,
    /// Seconds since the start of the run.
    pub seconds: f64,
    /// Metrics of the learner, such as its loss.
    pub metrics: Vec<(&'static str, f64)>,
}

impl Report {
    /// Returns the label: `actor`, `evaluator` or `learner`.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Report::Actor(_) => ACTOR,
            Report::Evaluator(_) => EVALUATOR,
            Report::Learner(_) => LEARNER,
        }
    }

    /// Returns the steps of all actors at the time of the report.
    #[must_use]
    pub fn env_steps(&self) -> u64 {
        match self {
            Report::Actor(episode) | Report::Evaluator(episode) => episode.env_steps,
            Report::Learner(learner) => learner.env_steps,
        }
    }

    /// Returns the steps of the learner at the time of the report.
    #[must_use]
    pub fn learner_steps(&self) -> u64 {
        match self {
            Report::Actor(episode) | Report::Evaluator(episode) => episode.learner_steps,
            Report::Learner(learner) => learner.learner_steps,
        }
    }

    /// Returns the position of the report in its run: environment steps, or learner steps if the run has not acted,
    /// such as one that learns from data.
    #[must_use]
    pub fn position(&self) -> u64 {
        if self.env_steps() == 0 { self.learner_steps() } else { self.env_steps() }
    }

    /// Returns all numbers of the report, by name.
    #[expect(clippy::cast_precision_loss, reason = "counts for people")]
    #[must_use]
    pub fn values(&self) -> Vec<(&'static str, f64)> {
        match self {
            Report::Actor(episode) | Report::Evaluator(episode) => vec![
                ("actor", episode.actor as f64),
                ("episode", episode.episode as f64),
                ("episode_length", episode.episode_length as f64),
                ("episode_return", episode.episode_return),
                ("env_steps", episode.env_steps as f64),
                ("learner_steps", episode.learner_steps as f64),
                ("seconds", episode.seconds),
                ("duration_s", episode.duration_s),
                ("steps_per_second", episode.steps_per_second()),
            ],
            Report::Learner(learner) => {
                let mut values = vec![
                    ("learner_steps", learner.learner_steps as f64),
                    ("env_steps", learner.env_steps as f64),
                    ("learner_walltime_s", learner.walltime_s),
                    ("seconds", learner.seconds),
                ];
                values.extend(&learner.metrics);
                values
            }
        }
    }
}
