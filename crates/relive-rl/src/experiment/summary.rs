//! What a run came to.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::Episode;

/// Episodes that the mean return is of.
const LAST_EPISODES: usize = 100;

/// An episode, and where the run stood at its end.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EpisodeReport {
    /// Which actor played it.
    pub actor: usize,
    /// Number of the episode, from 1 on.
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

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Mean return of the last hundred episodes, or of all if there were fewer.
    pub mean_return_last_100: f64,
    /// Episodes that were played.
    pub episodes: u64,
    /// Steps in the environment.
    pub env_steps: u64,
    /// Steps of the learner.
    pub learner_steps: u64,
    /// Steps in the environment per second, learning included.
    pub env_steps_per_s: f64,
    /// How often what came after the beginning was sampled: in one thread, for each step in the environment; otherwise for each item of
    /// the table.
    pub samples_per_insert: f64,
}

/// Counts episodes.
#[derive(Debug)]
pub(super) struct Tally {
    started: Instant,
    last_returns: VecDeque<f64>,
    episodes: u64,
    env_steps: u64,
}

impl Tally {
    pub(super) fn new() -> Tally {
        Tally { started: Instant::now(), last_returns: VecDeque::new(), episodes: 0, env_steps: 0 }
    }

    pub(super) fn env_steps(&self) -> u64 {
        self.env_steps
    }

    pub(super) fn note(&mut self, actor: usize, episode: &Episode, learner_steps: u64) -> EpisodeReport {
        self.episodes += 1;
        self.env_steps += episode.length;
        self.last_returns.push_back(episode.episode_return);
        if self.last_returns.len() > LAST_EPISODES {
            self.last_returns.pop_front();
        }
        EpisodeReport {
            actor,
            episode: self.episodes,
            episode_length: episode.length,
            episode_return: episode.episode_return,
            env_steps: self.env_steps,
            learner_steps,
            seconds: self.elapsed().as_secs_f64(),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "counts for people")]
    pub(super) fn summary(&self, learner_steps: u64, batch_size: usize, inserts: u64) -> Summary {
        let samples = learner_steps as f64 * batch_size as f64;
        Summary {
            mean_return_last_100: self.last_returns.iter().sum::<f64>()
                / self.last_returns.len().max(1) as f64,
            episodes: self.episodes,
            env_steps: self.env_steps,
            learner_steps,
            env_steps_per_s: self.env_steps as f64 / self.elapsed().as_secs_f64(),
            samples_per_insert: if inserts == 0 { 0.0 } else { samples / inserts as f64 },
        }
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}
