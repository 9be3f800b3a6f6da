//! The counters of a run, and its summary.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use relive_env::State;
use serde::{Deserialize, Deserializer, Serialize};

use super::RunOptions;
use crate::logging::{EpisodeReport, LearnerReport};
use crate::{Episode, Result, Times, state};

/// The number of episodes in the mean return.
const LAST_EPISODES: usize = 100;

/// The summary of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The mean return of the last hundred episodes, or of all episodes if there were fewer; NaN, in JSON `null`, if
    /// no episode has ended.
    #[serde(deserialize_with = "nan_if_null")]
    pub mean_return_last_100: f64,
    /// The number of episodes.
    pub episodes: u64,
    /// The number of steps in the environment.
    pub env_steps: u64,
    /// The number of steps of the learner.
    pub learner_steps: u64,
    /// Environment steps per second, including learning.
    pub env_steps_per_s: f64,
    /// How many times each item was sampled on average, not counting the items inserted before learning starts. Without
    /// tables, how many times each step was used.
    pub samples_per_insert: f64,
    /// The seconds spent on each [part](crate::Part) of the work, by name, summed over all threads and
    /// processes. Workers' times are included once they have reported them.
    #[serde(default)]
    pub time_by_part: BTreeMap<String, f64>,
}

fn nan_if_null<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

/// The counters of episodes and steps.
#[derive(Debug)]
pub(super) struct Counters {
    started: Instant,
    seconds_before: f64,
    last_returns: VecDeque<f64>,
    episodes: u64,
    env_steps: u64,
    evaluations: u64,
    /// Environment and learner steps at the last evaluation; `u64::MAX` before the first.
    evaluated_at: [u64; 2],
    learner_steps: u64,
    samples: u64,
    learner_walltime_s: f64,
    last_learner_step: Option<Instant>,
    times: Times,
}

impl Counters {
    pub(super) fn new() -> Counters {
        Counters {
            started: Instant::now(),
            seconds_before: 0.0,
            last_returns: VecDeque::new(),
            episodes: 0,
            env_steps: 0,
            evaluations: 0,
            evaluated_at: [u64::MAX; 2],
            learner_steps: 0,
            samples: 0,
            learner_walltime_s: 0.0,
            last_learner_step: None,
            times: Times::default(),
        }
    }

    pub(super) fn env_steps(&self) -> u64 {
        self.env_steps
    }

    pub(super) fn learner_steps(&self) -> u64 {
        self.learner_steps
    }

    /// Returns all counters.
    pub(super) fn position(&self) -> [u64; 4] {
        [self.env_steps, self.learner_steps, self.episodes, self.evaluations]
    }

    /// Adds steps of actors.
    pub(super) fn note_env_steps(&mut self, steps: u64) {
        self.env_steps += steps;
    }

    /// Adds the times spent on parts of the work.
    pub(super) fn note_times(&mut self, times: &Times) {
        self.times.merge(times);
    }

    pub(super) fn times(&self) -> Times {
        self.times
    }

    /// Counts a finished episode. Its steps are already counted.
    pub(super) fn note_episode(&mut self, actor: usize, episode: &Episode) -> EpisodeReport {
        self.episodes += 1;
        self.last_returns.push_back(episode.episode_return);
        if self.last_returns.len() > LAST_EPISODES {
            self.last_returns.pop_front();
        }
        self.report(actor, self.episodes, episode)
    }

    /// Counts an episode of the evaluator.
    pub(super) fn note_evaluation(&mut self, episode: &Episode) -> EpisodeReport {
        self.evaluations += 1;
        self.evaluated_at = [self.env_steps, self.learner_steps];
        self.report(0, self.evaluations, episode)
    }

    /// Returns the [steps](super::session::Session::steps) at the last evaluation; 0 before the first.
    pub(super) fn evaluated_at(&self, options: &RunOptions) -> u64 {
        let [env_steps, learner_steps] = self.evaluated_at;
        let steps = if options.env_steps == 0 { learner_steps } else { env_steps };
        if steps == u64::MAX { 0 } else { steps }
    }

    /// Returns whether no steps have been taken since the last evaluation.
    pub(super) fn is_evaluated(&self) -> bool {
        self.evaluated_at == [self.env_steps, self.learner_steps]
    }

    /// Adds learner steps and the samples that they used. The clock starts with the first call, which
    /// excludes the wait for experience.
    pub(super) fn note_learnt(&mut self, steps: u64, samples: u64) {
        let now = Instant::now();
        if let Some(last) = self.last_learner_step {
            self.learner_walltime_s += now.duration_since(last).as_secs_f64();
        }
        self.last_learner_step = Some(now);
        self.learner_steps += steps;
        self.samples += samples;
    }

    pub(super) fn learner_report(&self, metrics: Vec<(&'static str, f64)>) -> LearnerReport {
        LearnerReport {
            learner_steps: self.learner_steps,
            env_steps: self.env_steps,
            walltime_s: self.learner_walltime_s,
            seconds: self.seconds(),
            metrics,
        }
    }

    fn report(&self, actor: usize, number: u64, episode: &Episode) -> EpisodeReport {
        EpisodeReport {
            actor,
            episode: number,
            episode_length: episode.length,
            episode_return: episode.episode_return,
            env_steps: self.env_steps,
            learner_steps: self.learner_steps,
            seconds: self.seconds(),
            duration_s: episode.duration.as_secs_f64(),
        }
    }

    /// Returns the summary of the run, with the number of items available for learning.
    #[expect(clippy::cast_precision_loss, reason = "counts for people")]
    pub(super) fn summary(&self, inserts: u64) -> Summary {
        let returns = &self.last_returns;
        Summary {
            // Without episodes, 0 divided by 0 is NaN.
            mean_return_last_100: returns.iter().sum::<f64>() / returns.len() as f64,
            episodes: self.episodes,
            env_steps: self.env_steps,
            learner_steps: self.learner_steps,
            env_steps_per_s: self.env_steps as f64 / self.seconds().max(f64::MIN_POSITIVE),
            samples_per_insert: if inserts == 0 { 0.0 } else { self.samples as f64 / inserts as f64 },
            time_by_part: self.times.seconds(),
        }
    }

    fn seconds(&self) -> f64 {
        self.seconds_before + self.elapsed().as_secs_f64()
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Replaces the counters with [saved](Self::visit) ones if the saved ones are newer.
    pub(super) fn take_over_newer(&mut self, counters: &[u8]) -> Result<()> {
        let mut newest = Counters::new();
        state::restore("a run's counters", counters, |state| newest.visit(state))?;
        if newest.env_steps > self.env_steps {
            *self = newest;
        }
        Ok(())
    }

    /// Saves or restores the counters.
    pub(super) fn visit(&mut self, state: &mut State<'_>) {
        let mut seconds = self.seconds();
        state.field(&mut seconds);
        (self.seconds_before, self.started) = (seconds, Instant::now());
        let mut returns = u64::try_from(self.last_returns.len()).unwrap_or(0);
        state.field(&mut returns);
        let returns = usize::try_from(returns).unwrap_or(LAST_EPISODES).min(LAST_EPISODES);
        self.last_returns.resize(returns, 0.0);
        state.fields(self.last_returns.make_contiguous());
        let counts = [
            &mut self.episodes,
            &mut self.env_steps,
            &mut self.evaluations,
            &mut self.learner_steps,
            &mut self.samples,
        ];
        counts.into_iter().for_each(|count| state.field(count));
        self.evaluated_at.iter_mut().for_each(|steps| state.field(steps));
        state.field(&mut self.learner_walltime_s);
        self.times.visit(state);
    }
}

/// Visits the saved state of a run: its counters, and the states of its parts.
pub(super) fn visit_with(state: &mut State<'_>, counters: &mut Counters, parts: &mut Vec<u8>) {
    counters.visit(state);
    state.bytes(parts);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Part;

    #[test]
    fn without_episodes_the_mean_return_is_null_in_json() {
        let summary = Counters::new().summary(0);
        let json = serde_json::to_value(&summary).unwrap();
        assert!(summary.mean_return_last_100.is_nan() && json["mean_return_last_100"].is_null());
        let read: Summary = serde_json::from_value(json).unwrap();
        assert!(read.mean_return_last_100.is_nan());
    }

    #[test]
    fn saved_counters_resume() {
        let (mut counters, mut times) = (Counters::new(), Times::default());
        times.add(Part::Act, Duration::from_millis(10));
        for number in 0..150_u32 {
            let episode_return = f64::from(number);
            counters.note_env_steps(3);
            counters.note_episode(
                0,
                &Episode { length: 3, episode_return, duration: Duration::ZERO, ended_at: 3 },
            );
            counters.note_learnt(1, 4);
            counters.note_times(&times);
        }
        let bytes = state::save(|state| counters.visit(state));
        let mut resumed = Counters::new();
        state::restore("counters", &bytes, |state| resumed.visit(state)).unwrap();
        let (of, resumed) = (counters.summary(450), resumed.summary(450));
        assert_eq!(resumed.mean_return_last_100, 99.5);
        assert_eq!((of.episodes, of.env_steps, of.learner_steps), (150, 450, 150));
        assert_eq!(resumed.time_by_part["act"], 1.5);
        assert_eq!(Summary { env_steps_per_s: of.env_steps_per_s, ..resumed }, of);
    }
}
