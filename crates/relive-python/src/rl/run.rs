//! Runs of an agent, on a thread other than the interpreter's.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use relive_rl::SavedPolicy;
use relive_rl::logging::Loggers;
use relive_rl::run::{Checkpoints, Evaluation, Processes, RunOptions, Stop, train};

use super::agents::agent_of;
use super::foreign::Raised;
use super::hooks::hooks;
use super::log_files::{Ended, Event, FileRequest, Files, Outcome};
use super::policy::Policy;
use super::processes::ServedTables;
use super::raise::raise;
use super::report::{Listener, RunReports, episode_dict, summary_dict};
use super::source::Source;
use crate::interpreter::fork::Origin;
use crate::interpreter::lock::Brief;
use crate::interpreter::{finalization, logs};

/// The interval between checks for signals and deadlines, and the shortest interval between progress reports.
const SLICE: Duration = Duration::from_millis(50);

/// How long reports are passed on before the next check, if they arrive faster than the listener takes them.
const PASS_FOR: Duration = Duration::from_millis(500);

/// How long a call to Python code may take before it is logged.
const SILENCE: Duration = Duration::from_secs(5);

/// Trains an agent and returns the result of the run. `agent` is a native name with its settings in JSON, or a bridge;
/// `environment` is a native name, or a function from seeds to bridges; so is `evaluation_environment`.
#[pyfunction]
#[pyo3(signature = (agent, environment, *, name, steps, seed, actors, learners, learner_steps, data, timeout, evaluation, evaluation_environment, checkpoints, warm_start, progress, reports, supervisor, on_step, on_batch, on_evaluation))]
#[expect(clippy::too_many_arguments, reason = "the options of a run, which are keyword arguments in Python")]
pub(crate) fn train_agent<'py>(
    py: Python<'py>,
    agent: &Bound<'py, PyAny>,
    environment: &Bound<'py, PyAny>,
    name: String,
    steps: u64,
    seed: u64,
    actors: usize,
    learners: u32,
    learner_steps: Option<u64>,
    data: Option<PathBuf>,
    timeout: Option<f64>,
    evaluation: Option<(u64, u64)>,
    evaluation_environment: Option<&Bound<'py, PyAny>>,
    checkpoints: Option<(PathBuf, u64)>,
    warm_start: Option<PathBuf>,
    progress: Option<Bound<'py, PyAny>>,
    reports: Option<Bound<'py, PyAny>>,
    supervisor: Option<Bound<'py, PyAny>>,
    on_step: Option<Bound<'py, PyAny>>,
    on_batch: Option<Bound<'py, PyAny>>,
    on_evaluation: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let raised = Raised::default();
    let agent = agent_of(agent, &raised)?;
    finalization::park_when_finalized();
    let (event_sender, events) = sync_channel(1);
    let mut loggers = Loggers::new();
    if reports.is_some() {
        loggers.add(Files::new(event_sender.clone()));
    }
    let (stop, serving) = (Stop::new(), supervisor.as_ref().map(served).transpose()?);
    let begun = serving.as_ref().zip(supervisor.as_ref()).map(|(serving, supervisor)| {
        let start = supervisor.getattr(intern!(py, "start"))?.unbind();
        Ok::<_, PyErr>(serving.begun(start, &raised, &stop))
    });
    let options = RunOptions {
        environment: name,
        loggers,
        hooks: hooks([on_step, on_batch, on_evaluation].map(|hook| hook.map(Bound::unbind)), &agent, &raised),
        watch: serving.as_ref().map(ServedTables::watch),
        begun: begun.transpose()?,
        processes: supervisor.as_ref().map(processes).transpose()?.flatten(),
        learners: Some(learners),
        env_steps: steps,
        learner_steps,
        data,
        seed,
        actors,
        stop,
        log_lines: Some(logs::lines()),
        evaluation: evaluation.map(|(every, episodes)| Evaluation { every, episodes }),
        checkpoints: checkpoints.map(|(folder, every)| Checkpoints { folder, every }),
        warm_start,
    };
    let (listener, report_sender) = reports.map(Listener::new).unzip();
    let mut watch = RunWatch {
        raised: raised.clone(),
        silent_until: Instant::now() + SILENCE,
        stop: options.stop.clone(),
        run_reports: RunReports::default(),
        deadline: deadline(timeout)?,
        progress,
        listener,
        supervisor,
        shown: 0,
        failed: None,
        interrupt: None,
    };
    let sources = (Source::of(environment)?, evaluation_environment.map(Source::of).transpose()?);
    let mut on_report = watch.run_reports.noting(report_sender);
    let run_raised = raised.clone();
    let live_run = LiveRun::of(&watch.stop);
    let work = move || {
        let _alive = live_run;
        let make = Source::maker_of(sources, &run_raised);
        let trained = train(&agent, &options, &make, &mut on_report).and_then(|trained| {
            let policy = SavedPolicy::of(agent.as_ref(), &trained)?;
            Ok(Ended { summary: trained.summary, policy, unsaved: trained.unsaved })
        });
        // After a second Ctrl-C, the receiver is gone.
        let _ = event_sender.send(Event::Ended(Box::new(trained)));
    };
    std::thread::Builder::new().name("relive-rl".to_owned()).spawn(work)?;
    let ended = watch.wait(py, events)?;
    // The run's warnings should precede its result.
    logs::flush_logs(py);
    finished(py, &mut watch, ended, raised)
}

/// Returns the result of a run that has ended.
fn finished<'py>(
    py: Python<'py>,
    watch: &mut RunWatch<'py>,
    ended: Outcome,
    raised: Raised,
) -> PyResult<Bound<'py, PyDict>> {
    if let Some(error) = watch.failed.take().or_else(|| watch.interrupt.take()) {
        return Err(with_result(py, error, ended, |trained| result(py, watch, trained, raised)));
    }
    let mut trained = ended.map_err(|error| raised.take().unwrap_or_else(|| raise(py, &error)))?;
    // An exception that could not be reported when it was raised, such as one in the last save of a state.
    raised.take().map_or(Ok(()), Err)?;
    if let Some(error) = trained.unsaved.take() {
        let error = raise(py, &error);
        return Err(with_result(py, error, Ok(trained), |trained| result(py, watch, trained, raised)));
    }
    result(py, watch, trained, raised)
}

/// Returns the actors as processes of this machine, or as processes of nodes if `supervisor` starts nodes. Returns
/// `None` if it starts no actors.
fn processes(supervisor: &Bound<'_, PyAny>) -> PyResult<Option<Processes>> {
    let py = supervisor.py();
    let are_processes: bool = supervisor.getattr(intern!(py, "has_workers"))?.extract()?;
    let by_nodes = supervisor.getattr(intern!(py, "by_nodes"))?.extract()?;
    Ok(are_processes.then_some(Processes { server: None, by_nodes }))
}

/// Serves the tables of the run for the workers that `supervisor` starts.
fn served(supervisor: &Bound<'_, PyAny>) -> PyResult<ServedTables> {
    let py = supervisor.py();
    ServedTables::start(py, supervisor.getattr(intern!(py, "other_machines"))?.extract()?)
}

fn deadline(timeout: Option<f64>) -> PyResult<Option<Instant>> {
    let limit = crate::interpreter::wait::seconds(timeout)?;
    Ok(Instant::now().checked_add(limit))
}

fn result<'py>(
    py: Python<'py>,
    watch: &RunWatch<'py>,
    Ended { summary, policy, .. }: Ended,
    raised: Raised,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = summary_dict(py, &summary)?;
    let [actors, evaluator] = watch.run_reports.columns(py)?;
    dict.set_item("train", actors)?;
    dict.set_item("evaluation", evaluator)?;
    dict.set_item("is_complete", !watch.stop.is_stopped())?;
    dict.set_item("policy", Policy::new(policy, raised)?)?;
    Ok(dict)
}

/// Adds the result of the run to the exception that ended it from outside, or that follows it, for `relive.rl.run`.
fn with_result<'py>(
    py: Python<'py>,
    raised: PyErr,
    ended: Outcome,
    result: impl FnOnce(Ended) -> PyResult<Bound<'py, PyDict>>,
) -> PyErr {
    let added =
        ended.map(|trained| raised.value(py).setattr(intern!(py, "_relive_result"), result(trained)?));
    if let Ok(Err(error)) = added {
        // An exception of another class may refuse attributes.
        tracing::debug!(target: "relive", "the exception has no result: {error}");
    }
    raised
}

/// The runs with live threads, by number. After a fork, those of the parent process remain, which have no threads.
static RUNS: Brief<BTreeMap<u64, (Origin, Stop)>> = Brief::new(BTreeMap::new());

/// A run with a live thread.
struct LiveRun(u64);

impl LiveRun {
    fn of(stop: &Stop) -> LiveRun {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        RUNS.with(|runs| runs.insert(number, (Origin::here(), stop.clone())));
        LiveRun(number)
    }
}

impl Drop for LiveRun {
    fn drop(&mut self) {
        RUNS.with(|runs| runs.remove(&self.0));
    }
}

/// How long runs may take to end when the process ends.
const LAST: Duration = Duration::from_secs(3);

/// Ends the remaining runs before the interpreter is finalized, because they may call it.
#[pyfunction]
pub(crate) fn end_runs(py: Python<'_>) {
    let stop_all = || {
        RUNS.with(|runs| {
            runs.retain(|_, (origin, _)| !origin.is_foreign());
            runs.values().for_each(|(_, stop)| stop.stop());
            !runs.is_empty()
        })
    };
    let until = Instant::now() + LAST;
    py.detach(|| {
        while stop_all() && Instant::now() < until {
            std::thread::sleep(SLICE);
        }
    });
}

/// The thread that started a run, while the run is in progress.
struct RunWatch<'py> {
    stop: Stop,
    raised: Raised,
    /// When to log again which calls to Python code the run is waiting for.
    silent_until: Instant,
    run_reports: RunReports,
    deadline: Option<Instant>,
    progress: Option<Bound<'py, PyAny>>,
    /// Receives all reports from the run, until one of them has caused an error.
    listener: Option<Listener<'py>>,
    /// Supervises the workers' processes.
    supervisor: Option<Bound<'py, PyAny>>,
    /// The newest reported episode.
    shown: u64,
    /// The exception of a logger or a worker that stopped the run.
    failed: Option<PyErr>,
    /// The exception of a signal handler that stopped the run, such as `KeyboardInterrupt`.
    interrupt: Option<PyErr>,
}

impl RunWatch<'_> {
    /// Waits for the run to end. Ctrl-C ends the run; a second Ctrl-C ends the wait.
    fn wait(&mut self, py: Python<'_>, mut events: Receiver<Event>) -> PyResult<Outcome> {
        let (mut are_more_waiting, mut request) = (false, None);
        loop {
            let waited;
            let slice = if are_more_waiting { Duration::ZERO } else { SLICE };
            (events, waited) = py.detach(move || {
                let waited = events.recv_timeout(slice);
                (events, waited)
            });
            match waited {
                Ok(Event::Ended(outcome)) => {
                    self.pass_reports(py, None);
                    return Ok(*outcome);
                }
                Ok(Event::FileRequest(asked)) => request = Some(asked),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(PyRuntimeError::new_err("the thread of the run ended with a panic"));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.log_waits(py);
            if let Err(error) = py.check_signals() {
                if self.failed.is_some() || self.interrupt.is_some() {
                    return Err(error);
                }
                self.stop.stop();
                self.interrupt = Some(error);
            }
            let looked = self.supervisor.as_ref().map(|supervisor| supervisor.call_method0("check"));
            if let (Some(Err(error)), None) = (looked, &self.failed) {
                self.end(py, error);
            }
            if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                self.stop.stop();
            }
            are_more_waiting = self.pass_reports(py, Some(Instant::now() + PASS_FOR));
            if let Some(request) = request.take_if(|_| !are_more_waiting) {
                self.answer(py, request);
            }
        }
    }

    /// Logs the calls to Python code that take a long time and block the run.
    fn log_waits(&mut self, py: Python<'_>) {
        if Instant::now() < self.silent_until {
            return;
        }
        self.silent_until = Instant::now() + SILENCE;
        let Some(waits) = self.raised.waits(SILENCE) else { return };
        // The reporting code may need the interpreter.
        py.detach(|| match self.stop.is_stopped() {
            true => tracing::warn!(target: "relive", "the run is stopping, and is waiting for {waits}; press Ctrl-C again to stop at once"),
            false => tracing::info!(target: "relive", "the run is waiting for {waits}"),
        });
    }

    /// Passes the waiting reports on, until the time `until` if there is one, and then the newest episode. Returns whether
    /// more reports may be waiting.
    fn pass_reports(&mut self, py: Python<'_>, until: Option<Instant>) -> bool {
        let mut is_late = false;
        while !is_late && let Some(passed) = self.listener.as_ref().and_then(Listener::pass_next) {
            if let Err(error) = passed {
                self.end(py, error);
            }
            is_late = until.is_some_and(|until| Instant::now() >= until);
        }
        self.show_progress(py);
        is_late && self.listener.is_some()
    }

    /// Shows the newest episode, unless the run is ending with an exception: a second one would replace the result.
    fn show_progress(&mut self, py: Python<'_>) {
        let (Some(progress), None, None) = (&self.progress, &self.failed, &self.interrupt) else { return };
        let Some(episode) = self.run_reports.newest(self.shown) else { return };
        self.shown = episode.episode;
        if let Err(error) = episode_dict(py, &episode).and_then(|dict| progress.call1((dict,))) {
            self.end(py, error);
        }
    }

    /// Answers a request of the run about the loggers' files. All earlier reports have been written.
    fn answer(&mut self, py: Python<'_>, request: FileRequest) {
        let Some(listener) = &self.listener else { return request.refuse() };
        match request.answer(&listener.function) {
            Ok(()) => {}
            Err(error) => self.end(py, error),
        }
    }

    /// Stops the run. After an interrupt, reports continue until the run has saved its last checkpoint.
    fn end(&mut self, py: Python<'_>, error: PyErr) {
        self.stop.stop();
        // An exception that is not an ordinary one, such as `KeyboardInterrupt`, was raised by a signal handler during
        // a call.
        if self.interrupt.is_none() && !error.is_instance_of::<PyException>(py) {
            self.interrupt = Some(error);
        } else {
            self.failed = Some(error);
            // The run must not wait for a listener that takes no more reports.
            self.listener = None;
        }
    }
}
