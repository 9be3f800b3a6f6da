//! The results of a run, for people and for programs.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use relive_env::ReferenceScores;
use relive_rl::run::{Report, Stop, Summary};
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Kind, Result};
use crate::units::rate;

/// The number of episodes in the mean for `--until`.
pub(super) const UNTIL_EPISODES: usize = 20;

/// The final figures of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Figures {
    #[serde(flatten)]
    pub(super) summary: Summary,
    /// The mean return of the last evaluation on a scale on which a random policy's mean return is 0 and an expert's is 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) normalized_score: Option<f64>,
    /// The number of steps after which the mean return reached `--until`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) until_env_steps: Option<u64>,
}

/// Collects a run's figures from its reports, and ends the run when its goal is reached.
#[derive(Debug)]
pub(super) struct Watcher {
    until: Option<f64>,
    max_episodes: Option<u64>,
    stop: Stop,
    last: VecDeque<f64>,
    /// The numbers of steps in the environment and of the learner at the time of the newest evaluation, and the returns
    /// of that evaluation.
    evaluations: ((u64, u64), Vec<f64>),
    until_env_steps: Option<u64>,
}

impl Watcher {
    pub(super) fn new(until: Option<f64>, max_episodes: Option<u64>, stop: Stop) -> Watcher {
        let (last, evaluations) = (VecDeque::new(), ((0, 0), Vec::new()));
        Watcher { until, max_episodes, stop, last, evaluations, until_env_steps: None }
    }

    pub(super) fn note(&mut self, report: &Report) {
        match report {
            Report::Actor(episode) => {
                self.last.push_back(episode.episode_return);
                if self.last.len() > UNTIL_EPISODES {
                    self.last.pop_front();
                }
                let reached = self.until.is_some_and(|until| self.mean() >= until);
                if reached && self.last.len() == UNTIL_EPISODES && self.until_env_steps.is_none() {
                    self.until_env_steps = Some(episode.env_steps);
                    self.stop.complete();
                }
                if self.max_episodes.is_some_and(|most| episode.episode >= most) {
                    self.stop.complete();
                }
            }
            Report::Evaluator(episode) => {
                // A run that learns from data takes no steps in an environment.
                let moment = (episode.env_steps, episode.learner_steps);
                if self.evaluations.0 != moment {
                    self.evaluations = (moment, Vec::new());
                }
                self.evaluations.1.push(episode.episode_return);
            }
            Report::Learner(_) => {}
        }
    }

    /// Returns the mean return of the newest episodes.
    pub(super) fn mean(&self) -> f64 {
        mean(self.last.iter().copied())
    }

    /// Returns the mean return of the newest evaluation.
    pub(super) fn evaluator_return(&self) -> Option<f64> {
        (!self.evaluations.1.is_empty()).then(|| mean(self.evaluations.1.iter().copied()))
    }

    pub(super) fn figures(&self, summary: Summary) -> Figures {
        Figures { summary, normalized_score: None, until_env_steps: self.until_env_steps }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a mean for people")]
fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.sum::<f64>() / count
}

/// Returns the parts of a run's work by their time, longest first, as in `learn 3.1 s`; omits parts below one percent.
pub(in crate::commands) fn parts(seconds: &BTreeMap<String, f64>) -> String {
    let least = seconds.values().sum::<f64>() / 100.0;
    let mut parts: Vec<_> = seconds.iter().filter(|(_, seconds)| **seconds >= least).collect();
    parts.sort_by(|one, other| other.1.total_cmp(one.1));
    let texts: Vec<_> = parts.iter().map(|(part, seconds)| format!("{part} {seconds:.1} s")).collect();
    texts.join(", ")
}

impl Figures {
    /// Adds the score of the newest evaluation, if there was one and reference scores are known.
    #[must_use]
    pub(super) fn scored(self, scores: Option<ReferenceScores>) -> Figures {
        let score = self.summary.evaluator_return.zip(scores);
        Figures { normalized_score: score.map(|(reached, scores)| scores.normalized(reached)), ..self }
    }

    /// Returns whether the run has learned without acting: it has only episodes of evaluations.
    pub(super) fn is_from_data(&self) -> bool {
        self.summary.env_steps == 0 && self.summary.learner_steps > 0
    }

    /// Returns the final mean return, or `None` if no episode has ended.
    pub(super) fn episode_return(&self) -> Option<f64> {
        if self.is_from_data() {
            return self.summary.evaluator_return;
        }
        (self.summary.episodes > 0).then_some(self.summary.mean_return_last_100)
    }

    pub(super) fn describe(&self, environment: &str) -> String {
        let Summary {
            mean_return_last_100,
            episodes,
            env_steps,
            learner_steps,
            env_steps_per_s,
            samples_per_insert,
            time_by_part,
            evaluator_return,
        } = &self.summary;
        let reached = match episodes {
            0 => "no episode is complete".to_owned(),
            _ => {
                let last = (*episodes).min(100);
                format!("mean return {mean_return_last_100:.3} over the last {last} of {episodes} episodes")
            }
        };
        let mut text = match self.is_from_data() {
            true => format!("{environment}: {learner_steps} learner steps on data"),
            false => format!(
                "{environment}: {reached}; {env_steps} steps ({}), {learner_steps} learner steps, \
                 {samples_per_insert:.1} samples per insert",
                rate(*env_steps_per_s)
            ),
        };
        if !time_by_part.is_empty() {
            text += &format!("; time: {}", parts(time_by_part));
        }
        if let Some(mean) = evaluator_return {
            text += &format!("; {mean:.3} without exploration");
        }
        if let Some(score) = self.normalized_score {
            text += &format!(", normalized score {score:.1}");
        }
        text
    }

    pub(super) fn write(&self, path: &Path, flag: &str) -> Result {
        let json = serde_json::to_string_pretty(self).map_err(|error| Failure::text(Kind::Runtime, error))?;
        std::fs::write(path, json + "\n")
            .map_err(|error| Failure::text(Kind::Runtime, format!("{flag} {}: {error}", path.display())))
    }
}

#[cfg(test)]
mod tests {
    use relive_rl::run::EpisodeReport;

    use super::*;

    #[test]
    fn only_the_newest_evaluation_is_reported_even_without_actors() {
        let mut watcher = Watcher::new(None, None, Stop::new());
        for (learner_steps, episode_return) in [(100, 1.0), (100, 2.0), (200, 5.0), (200, 7.0)] {
            watcher.note(&Report::Evaluator(EpisodeReport {
                actor: 0,
                episode: 1,
                episode_length: 9,
                episode_return,
                env_steps: 0,
                learner_steps,
                seconds: 0.0,
                duration_s: 1.0,
            }));
        }
        assert_eq!(watcher.evaluator_return(), Some(6.0));
    }

    #[test]
    fn short_and_slow_runs_are_described_truthfully() {
        let summary = Summary {
            mean_return_last_100: 1.5,
            episodes: 37,
            env_steps: 40,
            learner_steps: 2,
            env_steps_per_s: 0.4,
            samples_per_insert: 1.0,
            time_by_part: BTreeMap::new(),
            evaluator_return: Some(2.0),
        };
        let text = Watcher::new(None, None, Stop::new()).figures(summary).describe("catch/0");
        assert_eq!(
            text,
            "catch/0: mean return 1.500 over the last 37 of 37 episodes; 40 steps (0.4/s), 2 learner steps, \
             1.0 samples per insert; 2.000 without exploration"
        );
    }
}
