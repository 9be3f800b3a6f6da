//! All scores together.

use super::{Run, score};
use crate::bsuite::{Experiment, Tag};
use crate::error::EnvError;

/// The strengths of an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The score of each experiment that has runs, and whether all of these runs are complete.
    pub experiments: Vec<(Experiment, f64, bool)>,
    /// The mean score of each tag that has experiments: the corners of bsuite's radar plot.
    pub tags: Vec<(Tag, f64)>,
}

/// Computes the scores from any set of runs.
///
/// # Errors
/// [`EnvError::Setting`] as for [`score`].
pub fn summarize(runs: &[Run]) -> Result<Summary, EnvError> {
    let mut experiments = Vec::new();
    for experiment in Experiment::ALL.into_iter().chain(Experiment::MNIST) {
        let of_it: Vec<Run> = runs.iter().filter(|run| run.id.experiment() == experiment).cloned().collect();
        if of_it.is_empty() {
            continue;
        }
        let finished = of_it.iter().all(|run| reaches(run, experiment.num_episodes()));
        experiments.push((experiment, score(experiment, &of_it)?, finished));
    }
    let tags = Tag::ALL.into_iter().filter_map(|tag| Some((tag, mean_of(tag, &experiments)?))).collect();
    Ok(Summary { experiments, tags })
}

fn reaches(run: &Run, episodes: u64) -> bool {
    run.rows.iter().any(|row| row.episode >= episodes)
}

fn mean_of(tag: Tag, experiments: &[(Experiment, f64, bool)]) -> Option<f64> {
    let scores: Vec<f64> = experiments
        .iter()
        .filter(|(experiment, ..)| experiment.tags().contains(&tag))
        .map(|(_, s, _)| *s)
        .collect();
    (!scores.is_empty()).then(|| super::rules::mean(&scores))
}
