//! The costs of a run, and its predicted speed on a cluster.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use relive_rl::RlError;
use relive_rl::cost::{Cluster, Costs, Probe};
use relive_rl::run::Stop;

use super::agents::agent_of;
use super::foreign::Raised;
use super::processes::ServedTables;
use super::raise::raise;
use super::source::Source;
use crate::error::invalid;
use crate::interpreter::finalization;

/// The interval between checks for signals.
const SLICE: Duration = Duration::from_millis(50);

/// Measures the costs of a run and returns them as JSON. Ctrl-C ends the measurement.
#[pyfunction]
pub(crate) fn measure_costs(
    py: Python<'_>,
    agent: &Bound<'_, PyAny>,
    environment: &Bound<'_, PyAny>,
    name: String,
    seconds: f64,
) -> PyResult<String> {
    let raised = Raised::default();
    let seconds = Duration::try_from_secs_f64(seconds).map_err(invalid)?;
    let (agent, source) = (agent_of(agent, &raised)?, Source::of(environment)?);
    finalization::park_when_finalized();
    let (serving, stop) = (ServedTables::start(py, None)?, Stop::new());
    let (sender, receiver) = channel();
    let (run_raised, run_stop) = (raised.clone(), stop.clone());
    let work = move || {
        let make = source.maker(run_raised);
        let (watch, address) = (serving.watch(), serving.address());
        let probe =
            Probe { agent: &agent, environment: &name, make: &make, watch, address, seconds, stop: run_stop };
        // After a second Ctrl-C, the receiver is gone.
        let _ = sender.send(probe.measure());
    };
    std::thread::Builder::new().name("relive-rl".to_owned()).spawn(work)?;
    let mut interrupted = None;
    let (mut receiver, mut waited) = (receiver, Err(RecvTimeoutError::Timeout));
    while matches!(waited, Err(RecvTimeoutError::Timeout)) {
        (receiver, waited) = py.detach(move || {
            let waited = receiver.recv_timeout(SLICE);
            (receiver, waited)
        });
        if let Err(error) = py.check_signals() {
            if interrupted.is_some() {
                return Err(error);
            }
            stop.stop();
            interrupted = Some(error);
        }
    }
    interrupted.map_or(Ok(()), Err)?;
    let panicked = || PyRuntimeError::new_err("the thread of the run ended with a panic");
    let costs = waited.map_err(|_| panicked())?;
    let costs = costs.map_err(|error| raised.take().unwrap_or_else(|| raise(py, &error)))?;
    serde_json::to_string(&costs).map_err(invalid)
}

/// Loads costs from a file, as JSON.
#[pyfunction]
pub(crate) fn load_costs(py: Python<'_>, path: &str) -> PyResult<String> {
    let costs = Costs::load(path).map_err(|error| match error {
        RlError::State { .. } => invalid(format!("{path}: {error}")),
        _ => raise(py, &error),
    })?;
    serde_json::to_string(&costs).map_err(invalid)
}

/// Writes costs to a file.
#[pyfunction]
pub(crate) fn save_costs(py: Python<'_>, costs: &str, path: &str) -> PyResult<()> {
    Costs::from_json(costs).and_then(|costs| costs.save(path)).map_err(|error| raise(py, &error))
}

/// Predicts the speed of a run on a cluster, as JSON; by default, its machines have as many processors as the measured
/// machine.
#[pyfunction]
pub(crate) fn predict_costs(
    py: Python<'_>,
    costs: &str,
    size: (usize, usize, usize),
    processors: Option<f64>,
    network_bytes_per_s: f64,
) -> PyResult<String> {
    let (nodes, workers, environments) = size;
    let predicted = Costs::from_json(costs).and_then(|costs| {
        let processors = processors.unwrap_or(costs.processors);
        costs.predict(&Cluster { nodes, workers, environments, processors, network_bytes_per_s })
    });
    serde_json::to_string(&predicted.map_err(|error| raise(py, &error))?).map_err(invalid)
}
