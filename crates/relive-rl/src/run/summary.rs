//! What a run came to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// How often each item was sampled, of those that came after the ones that learning waits for; without tables how often each step was
    /// learned from.
    pub samples_per_insert: f64,
    /// Seconds that the [parts](crate::Part) of the work took, by their names, in all threads and processes together. Those of workers are there once
    /// the run has heard of what they did.
    #[serde(default)]
    pub time_by_part: BTreeMap<String, f64>,
}
