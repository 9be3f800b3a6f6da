//! Maps errors from agents and environments to Python's exceptions.

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use relive_client::ErrorKind;
use relive_env::EnvError;
use relive_rl::RlError;

use crate::error;

/// Returns the exception for an agent's error.
pub(super) fn raise(py: Python<'_>, failed: &RlError) -> PyErr {
    match failed.cause() {
        RlError::Environment(EnvError::Failed(_)) => PyRuntimeError::new_err(failed.to_string()),
        RlError::Environment(_) => PyValueError::new_err(failed.to_string()),
        RlError::Replay(failed) => error::raise(py, failed),
        RlError::File { path, error } => {
            let text = error.to_string();
            let reason = text.split_once(" (os error ").map_or(&*text, |(reason, _)| reason).to_owned();
            PyOSError::new_err((error.raw_os_error().unwrap_or(0), reason, path.clone()))
        }
        RlError::DamagedPolicy { .. } => error::raise_kind(py, ErrorKind::DataLoss, failed.to_string()),
        RlError::OtherRun { .. } => PyValueError::new_err(format!("{failed} (checkpoint_dir=)")),
        RlError::Setting { .. }
        | RlError::Unsuited { .. }
        | RlError::NoDemonstrator
        | RlError::NotFinite { .. }
        | RlError::Extras { .. }
        | RlError::Dataset { .. }
        | RlError::Recording { .. }
        | RlError::Policy { .. }
        | RlError::Tables(_) => PyValueError::new_err(failed.to_string()),
        _ => PyRuntimeError::new_err(failed.to_string()),
    }
}

/// Returns the exception for an environment's error.
pub(super) fn raise_env(failed: &EnvError) -> PyErr {
    match failed {
        EnvError::Failed(_) => PyRuntimeError::new_err(failed.to_string()),
        failed => PyValueError::new_err(failed.to_string()),
    }
}
