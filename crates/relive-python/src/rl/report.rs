//! Passes a run's reports to Python.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use relive_rl::run::{EpisodeReport, Report, Summary};

use crate::arrays::array;
use crate::interpreter::lock::Brief;

/// The reports received from a run so far. Clones share them.
#[derive(Clone)]
pub(super) struct RunReports(Arc<Brief<Episodes>>);

#[derive(Default)]
struct Episodes {
    actors: Vec<EpisodeReport>,
    evaluator: Vec<EpisodeReport>,
    /// Reports that have not been passed on yet; `None` if there is no listener.
    pending: Option<Vec<Report>>,
}

impl RunReports {
    /// Starts without reports. Later reports are queued if there is a listener.
    pub(super) fn new(has_listener: bool) -> RunReports {
        RunReports(Arc::new(Brief::new(Episodes {
            pending: has_listener.then(Vec::new),
            ..Episodes::default()
        })))
    }

    /// Returns the reports since the last call.
    pub(super) fn pending(&self) -> Vec<Report> {
        self.0.with(|episodes| episodes.pending.as_mut().map(std::mem::take).unwrap_or_default())
    }

    pub(super) fn note(&self, report: &Report) {
        self.0.with(|episodes| {
            if let Some(pending) = &mut episodes.pending {
                pending.push(report.clone());
            }
            match report {
                Report::Actor(episode) => episodes.actors.push(episode.clone()),
                Report::Evaluator(episode) => episodes.evaluator.push(episode.clone()),
                Report::Learner(_) => {}
            }
        });
    }

    /// Returns the newest episode of any actor, unless its number is `known`.
    pub(super) fn newest(&self, known: u64) -> Option<EpisodeReport> {
        self.0.with(|episodes| episodes.actors.last().filter(|episode| episode.episode != known).cloned())
    }

    /// Returns all episodes of the actors and of the evaluator, as columns.
    pub(super) fn columns<'py>(&self, py: Python<'py>) -> PyResult<[Bound<'py, PyDict>; 2]> {
        let (actors, evaluator) =
            self.0.with(|episodes| (episodes.actors.clone(), episodes.evaluator.clone()));
        Ok([columns(py, &actors)?, columns(py, &evaluator)?])
    }
}

fn columns<'py>(py: Python<'py>, episodes: &[EpisodeReport]) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let whole = |of: fn(&EpisodeReport) -> u64| {
        let values: Vec<i64> = episodes.iter().map(|e| i64::try_from(of(e)).unwrap_or(i64::MAX)).collect();
        array::from_elements(py, &values)
    };
    let floats = |of: fn(&EpisodeReport) -> f64| {
        let values: Vec<f64> = episodes.iter().map(of).collect();
        array::from_elements(py, &values)
    };
    dict.set_item("returns", floats(|episode| episode.episode_return)?)?;
    dict.set_item("lengths", whole(|episode| episode.episode_length)?)?;
    dict.set_item("actors", whole(|episode| episode.actor as u64)?)?;
    dict.set_item("env_steps", whole(|episode| episode.env_steps)?)?;
    dict.set_item("learner_steps", whole(|episode| episode.learner_steps)?)?;
    dict.set_item("seconds", floats(|episode| episode.seconds)?)?;
    Ok(dict)
}

/// Calls a function with a run's reports: each with its source and its numbers by name.
pub(super) fn pass_on(reports: &Bound<'_, PyAny>, report: &Report) -> PyResult<()> {
    let values = PyDict::new(reports.py());
    report.values().into_iter().try_for_each(|(name, value)| values.set_item(name, value))?;
    reports.call1((report.label(), values)).map(drop)
}

/// Returns an episode as the progress function receives it.
pub(super) fn episode_dict<'py>(py: Python<'py>, episode: &EpisodeReport) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("actor", episode.actor)?;
    dict.set_item("episode", episode.episode)?;
    dict.set_item("episode_length", episode.episode_length)?;
    dict.set_item("episode_return", episode.episode_return)?;
    dict.set_item("env_steps", episode.env_steps)?;
    dict.set_item("learner_steps", episode.learner_steps)?;
    dict.set_item("seconds", episode.seconds)?;
    dict.set_item("duration_s", episode.duration_s)?;
    dict.set_item("steps_per_second", episode.steps_per_second())?;
    Ok(dict)
}

pub(super) fn summary_dict<'py>(py: Python<'py>, summary: &Summary) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("mean_return_last_100", summary.mean_return_last_100)?;
    dict.set_item("episodes", summary.episodes)?;
    dict.set_item("env_steps", summary.env_steps)?;
    dict.set_item("learner_steps", summary.learner_steps)?;
    dict.set_item("env_steps_per_s", summary.env_steps_per_s)?;
    dict.set_item("samples_per_insert", summary.samples_per_insert)?;
    dict.set_item("time_by_part", summary.time_by_part.clone())?;
    Ok(dict)
}
