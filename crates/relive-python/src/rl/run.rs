//! Runs of an agent, beside the interpreter.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use relive_rl::plan::MakeEnvironment;
use relive_rl::run::{Checkpoints, Evaluation, RunOptions, Stop, Summary, train};
use relive_rl::{RlError, SavedPolicy};

use super::foreign::Raised;
use super::policy::Policy;
use super::raise::raise;
use super::report::{Told, episode_dict, summary_dict};
use super::source::Source;

/// How often signals and deadlines are looked at, and progress is told of at most.
const SLICE: Duration = Duration::from_millis(50);

/// Trains an agent by its name and gives what the run came to. `config` is JSON; `environment` a native name, or a function from seeds to bridges.
#[pyfunction]
#[pyo3(signature = (agent, config, environment, *, name, steps, seed, actors, learner_steps, data, timeout, evaluation, checkpoints, progress))]
#[expect(clippy::too_many_arguments, reason = "the options of a run, named in Python")]
pub(crate) fn train_agent<'py>(
    py: Python<'py>,
    agent: &str,
    config: &str,
    environment: &Bound<'py, PyAny>,
    name: String,
    steps: u64,
    seed: u64,
    actors: usize,
    learner_steps: Option<u64>,
    data: Option<PathBuf>,
    timeout: Option<f64>,
    evaluation: Option<(u64, u64)>,
    checkpoints: Option<(PathBuf, u64)>,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let agent = relive_agents::from_json(agent, config).map_err(|error| raise(py, &error))?;
    let options = RunOptions {
        environment: name,
        env_steps: steps,
        learner_steps,
        data,
        seed,
        actors,
        stop: Stop::new(),
        evaluation: evaluation.map(|(every, episodes)| Evaluation { every, episodes }),
        checkpoints: checkpoints.map(|(folder, every)| Checkpoints { folder, every }),
        ..RunOptions::default()
    };
    let mut watch = Watch {
        stop: options.stop.clone(),
        told: Told::default(),
        deadline: deadline(timeout)?,
        progress,
        shown: 0,
        failed: None,
    };
    let (raised, told, source) = (Raised::default(), watch.told.clone(), Source::of(environment)?);
    let run_raised = raised.clone();
    let (done, ended) = sync_channel(1);
    let work = move || {
        let source = Arc::new(source);
        let environments = Arc::clone(&source);
        let make: MakeEnvironment = Arc::new(move |seed| environments.make(seed, &run_raised));
        let trained = source.within(|| {
            let trained = train(&agent, &options, &make, &mut |report| told.note(report))?;
            let policy = SavedPolicy::of(agent.as_ref(), &trained)?;
            Ok::<_, RlError>((trained.summary, policy))
        });
        // Nobody listens after a second Ctrl-C.
        let _ = done.send(trained);
    };
    std::thread::Builder::new().name("relive-rl".to_owned()).spawn(work)?;
    let ended = watch.wait(py, ended)?;
    if let Some(error) = watch.failed.take() {
        return Err(error);
    }
    let trained = ended.map_err(|error| raised.take().unwrap_or_else(|| raise(py, &error)))?;
    result(py, &watch, trained)
}

fn deadline(timeout: Option<f64>) -> PyResult<Option<Instant>> {
    let limit = crate::client::seconds(timeout)?;
    Ok(Instant::now().checked_add(limit))
}

fn result<'py>(
    py: Python<'py>,
    watch: &Watch<'py>,
    (summary, policy): (Summary, SavedPolicy),
) -> PyResult<Bound<'py, PyDict>> {
    let dict = summary_dict(py, &summary)?;
    let [actors, evaluator] = watch.told.columns(py)?;
    dict.set_item("train", actors)?;
    dict.set_item("evaluation", evaluator)?;
    dict.set_item("is_complete", !watch.stop.is_stopped())?;
    dict.set_item("policy", Policy::new(policy)?)?;
    Ok(dict)
}

/// The thread that asked for a run, while it goes on.
struct Watch<'py> {
    stop: Stop,
    told: Told,
    deadline: Option<Instant>,
    progress: Option<Bound<'py, PyAny>>,
    /// The newest episode that was told of.
    shown: u64,
    /// Why the run was told to stop.
    failed: Option<PyErr>,
}

impl Watch<'_> {
    /// Waits for the run to end. Ctrl-C ends it; a second one does not wait for that.
    fn wait<T: Send>(&mut self, py: Python<'_>, mut ended: Receiver<T>) -> PyResult<T> {
        loop {
            let waited;
            (ended, waited) = py.detach(move || {
                let waited = ended.recv_timeout(SLICE);
                (ended, waited)
            });
            match waited {
                Ok(outcome) => {
                    self.tell(py);
                    return Ok(outcome);
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(PyRuntimeError::new_err("the thread of the run ended with a panic"));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Err(error) = py.check_signals() {
                if self.failed.is_some() {
                    return Err(error);
                }
                self.end(error);
            }
            if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                self.stop.stop();
            }
            self.tell(py);
        }
    }

    fn tell(&mut self, py: Python<'_>) {
        let (Some(progress), None) = (&self.progress, &self.failed) else { return };
        let Some(episode) = self.told.newest(self.shown) else { return };
        self.shown = episode.episode;
        if let Err(error) = episode_dict(py, &episode).and_then(|dict| progress.call1((dict,))) {
            self.end(error);
        }
    }

    fn end(&mut self, error: PyErr) {
        self.stop.stop();
        self.failed = Some(error);
    }
}
