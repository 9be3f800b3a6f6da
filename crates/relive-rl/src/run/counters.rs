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
    /// The mean return of the run's last evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluator_return: Option<f64>,
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
    /// The returns of the last evaluation.
    evaluation: ReturnSum,
    learner_steps: u64,
    samples: u64,
    learner_walltime_s: f64,
    last_learner_step: Option<Instant>,
    times: Times,
}

/// A sum of returns.
#[derive(Debug, Clone, Copy, Default)]
struct ReturnSum {
    sum: f64,
    episodes: u64,
}

impl ReturnSum {
    fn add(&mut self, episode_return: f64) {
        self.sum += episode_return;
        self.episodes += 1;
    }

    /// Returns the mean, or `None` if there is no return.
    #[expect(clippy::cast_precision_loss, reason = "a mean for people")]
    fn mean(self) -> Option<f64> {
        (self.episodes > 0).then(|| self.sum / self.episodes as f64)
    }
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
            evaluation: ReturnSum::default(),
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

    /// Returns the number of episodes that have ended.
    pub(super) fn episodes(&self) -> u64 {
        self.episodes
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

    /// Begins a new evaluation, whose episodes follow.
    pub(super) fn begin_evaluation(&mut self) {
        self.evaluation = ReturnSum::default();
    }

    /// Counts an episode of the evaluator.
    pub(super) fn note_evaluation(&mut self, episode: &Episode) -> EpisodeReport {
        self.evaluations += 1;
        self.evaluated_at = [self.env_steps, self.learner_steps];
        self.evaluation.add(episode.episode_return);
        self.report(0, self.evaluations, episode)
    }

    /// Returns the [steps](super::session::Session::steps) at the last evaluation; 0 before the first.
    pub(super) fn evaluated_at(&self, options: &RunOptions) -> u64 {
        let [env_steps, learner_steps] = self.evaluated_at;
        let steps = if options.env_steps == 0 { learner_steps } else { env_steps };
        if steps == u64::MAX { 0 } else { steps }
    }

    /// Returns whether no steps have been taken since the last evaluation, whose returns are known.
    pub(super) fn is_evaluated(&self) -> bool {
        // The states of earlier versions do not have the returns.
        self.evaluated_at == [self.env_steps, self.learner_steps] && self.evaluation.episodes > 0
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
            evaluator_return: self.evaluation.mean(),
        }
    }

    /// Continues the clocks of the same run in this process, which include the time since the counters were saved.
    pub(super) fn continue_clocks(&mut self, before: &Counters) {
        (self.started, self.seconds_before) = (before.started, before.seconds_before);
        (self.last_learner_step, self.learner_walltime_s) =
            (before.last_learner_step, before.learner_walltime_s);
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
        restore("a run's counters", counters, |state, layout| {
            newest.visit(state);
            newest.visit_end(state, layout);
        })?;
        if newest.env_steps > self.env_steps {
            *self = newest;
        }
        Ok(())
    }

    /// Returns the saved counters.
    pub(super) fn save(&mut self) -> Vec<u8> {
        state::save(|state| {
            self.visit(state);
            self.visit_end(state, Layout::Newest);
        })
    }

    /// Saves or restores the counters, except those at the [end](Self::visit_end) of a state.
    fn visit(&mut self, state: &mut State<'_>) {
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

    /// Saves or restores the counters that follow all others, because earlier versions do not have them.
    fn visit_end(&mut self, state: &mut State<'_>, layout: Layout) {
        if layout == Layout::Newest {
            state.field(&mut self.evaluation.sum);
            state.field(&mut self.evaluation.episodes);
        }
    }
}

/// The layout of saved counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    Newest,
    /// The layout of earlier versions, without the returns of the last evaluation.
    WithoutEvaluation,
}

/// Restores a state in the newest layout, or in that of earlier versions.
fn restore(what: &'static str, bytes: &[u8], mut visit: impl FnMut(&mut State<'_>, Layout)) -> Result<()> {
    let mut read = |layout| state::restore(what, bytes, |state| visit(state, layout));
    read(Layout::Newest).or_else(|error| read(Layout::WithoutEvaluation).map_err(|_| error))
}

/// Returns the saved state of a run: its counters, and the states of its parts.
pub(super) fn save_with(counters: &mut Counters, parts: &mut Vec<u8>) -> Vec<u8> {
    state::save(|state| visit_with(state, (counters, parts), Layout::Newest))
}

/// Returns the counters and the parts in the saved state of a run.
///
/// # Errors
/// The state is damaged.
pub(super) fn restore_with(bytes: &[u8]) -> Result<(Counters, Vec<u8>)> {
    let (mut counters, mut parts) = (Counters::new(), Vec::new());
    restore("a run", bytes, |state, layout| visit_with(state, (&mut counters, &mut parts), layout))?;
    Ok((counters, parts))
}

fn visit_with(state: &mut State<'_>, (counters, parts): (&mut Counters, &mut Vec<u8>), layout: Layout) {
    counters.visit(state);
    state.bytes(parts);
    counters.visit_end(state, layout);
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
        let bytes = save_with(&mut counters, &mut vec![7]);
        let (resumed, parts) = restore_with(&bytes).unwrap();
        assert_eq!(parts, [7]);
        let (of, resumed) = (counters.summary(450), resumed.summary(450));
        assert_eq!(resumed.mean_return_last_100, 99.5);
        assert_eq!((of.episodes, of.env_steps, of.learner_steps), (150, 450, 150));
        assert_eq!(resumed.time_by_part["act"], 1.5);
        assert_eq!(Summary { env_steps_per_s: of.env_steps_per_s, ..resumed }, of);
    }

    #[test]
    fn the_last_evaluation_is_saved_and_states_of_earlier_versions_are_read() {
        let mut counters = Counters::new();
        counters.note_env_steps(7);
        for returns in [&[9.0][..], &[1.0, 2.0]] {
            counters.begin_evaluation();
            for &episode_return in returns {
                let duration = Duration::ZERO;
                counters.note_evaluation(&Episode { length: 3, episode_return, duration, ended_at: 3 });
            }
        }
        let bytes = save_with(&mut counters, &mut vec![7]);
        let (resumed, parts) = restore_with(&bytes).unwrap();
        assert!(resumed.is_evaluated(), "a finished run has no reason to evaluate again");
        assert_eq!((resumed.summary(0).evaluator_return, parts), (Some(1.5), vec![7]));
        let (old, parts) = restore_with(&bytes[..bytes.len() - 16]).unwrap();
        assert_eq!((old.env_steps(), old.summary(0).evaluator_return, parts), (7, None, vec![7]));
        assert!(!old.is_evaluated());
        assert!(restore_with(&bytes[..bytes.len() - 1]).is_err());
        let mut newer = Counters::new();
        newer.take_over_newer(&counters.save()).unwrap();
        assert_eq!(newer.summary(0).evaluator_return, Some(1.5));
    }

    #[test]
    fn the_time_of_a_save_counts() {
        let mut before = Counters::new();
        let (mut again, _) = restore_with(&save_with(&mut before, &mut Vec::new())).unwrap();
        // The checkpoint with this state takes a long time to write.
        before.started = before.started.checked_sub(Duration::from_secs(100)).unwrap();
        again.continue_clocks(&before);
        assert!((100.0..160.0).contains(&again.seconds()), "{}", again.seconds());
    }
}
