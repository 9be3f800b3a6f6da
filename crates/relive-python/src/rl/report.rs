//! Passes a run's reports to Python.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use relive_rl::run::{EpisodeReport, Report, Summary};

use crate::arrays::array;
use crate::interpreter::lock::Brief;

/// The episodes of a run so far. Clones share them.
#[derive(Clone, Default)]
pub(super) struct RunReports(Arc<Brief<Episodes>>);

#[derive(Default)]
struct Episodes {
    actors: Vec<EpisodeReport>,
    evaluator: Vec<EpisodeReport>,
}

impl RunReports {
    /// Returns a function for the run's thread that notes reports, and sends them to a listener.
    pub(super) fn noting(&self, mut sender: Option<ReportSender>) -> impl FnMut(&Report) + Send + use<> {
        let reports = self.clone();
        move |report| {
            reports.note(report);
            if let Some(sender) = &mut sender {
                sender.send(report);
            }
        }
    }

    fn note(&self, report: &Report) {
        self.0.with(|episodes| match report {
            Report::Actor(episode) => episodes.actors.push(episode.clone()),
            Report::Evaluator(episode) => episodes.evaluator.push(episode.clone()),
            Report::Learner(_) => {}
        });
    }

    /// Returns the newest episode of any actor, unless its number is `known`.
    pub(super) fn newest(&self, known: u64) -> Option<EpisodeReport> {
        self.0.with(|episodes| episodes.actors.last().filter(|episode| episode.episode != known).cloned())
    }

    /// Takes all episodes of the actors and of the evaluator, as columns.
    pub(super) fn columns<'py>(&self, py: Python<'py>) -> PyResult<[Bound<'py, PyDict>; 2]> {
        let Episodes { actors, evaluator } = self.0.take();
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

/// The maximum number of reports that wait for a listener. If the listener is slower than the run, the run waits.
const MAX_WAITING: usize = 10_000;

/// A Python function that receives all reports of a run.
pub(super) struct Listener<'py> {
    pub(super) function: Bound<'py, PyAny>,
    waiting: Receiver<Report>,
}

impl<'py> Listener<'py> {
    /// Returns a listener, and the end of its queue for the run's thread.
    pub(super) fn new(function: Bound<'py, PyAny>) -> (Listener<'py>, ReportSender) {
        let (sender, waiting) = sync_channel(MAX_WAITING);
        (Listener { function, waiting }, ReportSender { sender, has_waited: false })
    }

    /// Calls the function with the next report: its source, and its numbers by name. Returns `None` if no report is
    /// waiting.
    pub(super) fn pass_next(&self) -> Option<PyResult<()>> {
        let report = self.waiting.try_recv().ok()?;
        let values = PyDict::new(self.function.py());
        let mut numbers = report.values().into_iter();
        let filled = numbers.try_for_each(|(name, value)| values.set_item(name, value));
        Some(filled.and_then(|()| self.function.call1((report.label(), values)).map(drop)))
    }
}

/// The run's end of a listener's queue.
pub(super) struct ReportSender {
    sender: SyncSender<Report>,
    has_waited: bool,
}

impl ReportSender {
    /// Sends a report, if necessary once the listener has taken another one. A listener that has ended gets nothing.
    pub(super) fn send(&mut self, report: &Report) {
        let Err(TrySendError::Full(report)) = self.sender.try_send(report.clone()) else { return };
        if !std::mem::replace(&mut self.has_waited, true) {
            tracing::warn!(
                target: "relive",
                "the loggers are slower than the run: {MAX_WAITING} reports are waiting for them, so the run waits, too"
            );
        }
        let _ = self.sender.send(report);
    }
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
