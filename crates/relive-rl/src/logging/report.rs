//! What a run tells on its way.

use serde::Serialize;

/// All labels of reports.
pub(crate) const LABELS: [&str; 3] = [ACTOR, EVALUATOR, LEARNER];
const ACTOR: &str = "actor";
const EVALUATOR: &str = "evaluator";
const LEARNER: &str = "learner";

/// What a run tells on its way.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// An actor has ended an episode.
    Actor(EpisodeReport),
    /// The evaluator has played one.
    Evaluator(EpisodeReport),
    /// The learner has made some steps.
    Learner(LearnerReport),
}

/// An episode, and where the run stood at its end.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EpisodeReport {
    /// The number of the actor.
    pub actor: usize,
    /// Number of the episode, from 1 on; those of all actors count together, those of the evaluator apart.
    pub episode: u64,
    /// Its steps.
    pub episode_length: u64,
    /// The undiscounted sum of its rewards.
    pub episode_return: f64,
    /// Steps of all actors.
    pub env_steps: u64,
    /// Steps of the learner.
    pub learner_steps: u64,
    /// Since the run began.
    pub seconds: f64,
}

/// Where the learner stands.
#[derive(Debug, Clone, PartialEq)]
pub struct LearnerReport {
    /// Steps of the learner.
    pub learner_steps: u64,
    /// Steps of all actors.
    pub env_steps: u64,
    /// How long the learner has been at it, the time before its first step not counted.
    pub walltime_s: f64,
    /// Since the run began.
    pub seconds: f64,
    /// What the learner tells of itself, such as its loss.
    pub metrics: Vec<(&'static str, f64)>,
}

impl Report {
    /// Whose it is: `actor`, `evaluator` or `learner`.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Report::Actor(_) => ACTOR,
            Report::Evaluator(_) => EVALUATOR,
            Report::Learner(_) => LEARNER,
        }
    }

    /// The steps of all actors that it was made at.
    #[must_use]
    pub fn env_steps(&self) -> u64 {
        match self {
            Report::Actor(episode) | Report::Evaluator(episode) => episode.env_steps,
            Report::Learner(learner) => learner.env_steps,
        }
    }

    /// The steps of the learner that it was made at.
    #[must_use]
    pub fn learner_steps(&self) -> u64 {
        match self {
            Report::Actor(episode) | Report::Evaluator(episode) => episode.learner_steps,
            Report::Learner(learner) => learner.learner_steps,
        }
    }

    /// All its numbers, by name.
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
