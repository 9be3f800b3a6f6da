//! A member of a ring, for learners in several processes: `relive.rl.AllReduce`.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use numpy::{PyReadwriteArray1, PyReadwriteArrayDyn};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use relive_client::ErrorKind;
use relive_cluster::reduce::{self, Meeting, Reduction, RingError, RingOptions};

use crate::error::{invalid, raise_kind};
use crate::interpreter::lock::Brief;

/// The interval between checks for signals.
const SLICE: Duration = Duration::from_millis(50);

/// A member of a ring.
#[pyclass(frozen, module = "relive._native")]
pub(crate) struct Ring {
    ring: reduce::Ring,
    /// The exception that a signal handler raised during a call.
    raised: Arc<Brief<Option<PyErr>>>,
}

#[pymethods]
impl Ring {
    #[new]
    #[expect(
        clippy::too_many_arguments,
        reason = "the options of a ring, which are keyword arguments in Python"
    )]
    fn new(
        py: Python<'_>,
        rank: u32,
        ranks: u32,
        address: String,
        job: String,
        token: String,
        meeting_timeout: f64,
        timeout: f64,
        silence: f64,
    ) -> PyResult<Ring> {
        let [meeting, timeout, silence] = [meeting_timeout, timeout, silence]
            .map(|seconds| crate::interpreter::wait::seconds(Some(seconds)));
        let (meeting, timeout, silence) = (meeting?, timeout?, silence?);
        let options = RingOptions { ranks, job, token, meeting, timeout, silence };
        let (done, joined) = sync_channel(1);
        let join = move || {
            let ring = match rank {
                0 => Meeting::open(&address, options).and_then(|meeting| meeting.ring(|| Ok(()))),
                _ => reduce::Ring::join(&address, rank, options),
            };
            // After Ctrl-C, the receiver is gone. The ring is then dropped, which notifies the other members.
            let _ = done.send(ring);
        };
        std::thread::Builder::new().name("relive-meeting".to_owned()).spawn(join)?;
        let mut joined = joined;
        let ring = loop {
            let waited;
            (joined, waited) = py.detach(move || {
                let waited = joined.recv_timeout(SLICE);
                (joined, waited)
            });
            match waited {
                Ok(ring) => break ring.map_err(|error| raise(py, &error))?,
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(PyRuntimeError::new_err("the thread of the meeting ended with a panic"));
                }
            }
        };
        let raised = Arc::<Brief<Option<PyErr>>>::default();
        let ring = ring.checked_by({
            let raised = Arc::clone(&raised);
            move || {
                #[expect(
                    clippy::redundant_closure_for_method_calls,
                    reason = "the method's lifetime is not general enough"
                )]
                let looked = Python::attach(|py| py.check_signals());
                looked.map_err(|error| {
                    raised.replace(Some(error));
                    "by a signal".to_owned()
                })
            }
        });
        Ok(Ring { ring, raised })
    }

    /// Replaces this contiguous array with the sum or the mean of all members' arrays.
    fn all_reduce(
        &self,
        py: Python<'_>,
        mut numbers: PyReadwriteArrayDyn<'_, f32>,
        is_mean: bool,
    ) -> PyResult<()> {
        let numbers = numbers.as_slice_mut().map_err(invalid)?;
        let reduction = if is_mean { Reduction::Mean } else { Reduction::Sum };
        self.raise_ring_error(py, py.detach(|| self.ring.all_reduce(numbers, reduction)))
    }

    /// Replaces this member's bytes with the bytes of member 0, which must have the same length.
    fn broadcast(&self, py: Python<'_>, mut data: PyReadwriteArray1<'_, u8>) -> PyResult<()> {
        let own = data.as_slice_mut().map_err(invalid)?;
        let mut bytes = own.to_vec();
        self.raise_ring_error(py, py.detach(|| self.ring.broadcast(&mut bytes)))?;
        if bytes.len() != own.len() {
            let text = format!("member 0 broadcasts {} bytes, but the array has {}", bytes.len(), own.len());
            return Err(invalid(text));
        }
        own.copy_from_slice(&bytes);
        Ok(())
    }

    /// Returns the numbers of all members, by rank.
    #[expect(clippy::needless_pass_by_value, reason = "converted from a Python list")]
    fn gather(&self, py: Python<'_>, numbers: Vec<f64>) -> PyResult<Vec<Vec<f64>>> {
        self.raise_ring_error(py, py.detach(|| self.ring.gather(&numbers)))
    }

    fn leave(&self, py: Python<'_>) {
        py.detach(|| self.ring.leave());
    }

    fn fail(&self, py: Python<'_>, reason: &str) {
        py.detach(|| self.ring.fail(reason));
    }
}

impl Ring {
    fn raise_ring_error<T>(&self, py: Python<'_>, result: Result<T, RingError>) -> PyResult<T> {
        result.map_err(|error| self.raised.take().unwrap_or_else(|| raise(py, &error)))
    }
}

fn raise(py: Python<'_>, error: &RingError) -> PyErr {
    let kind = match error {
        RingError::Setting { .. } | RingError::Mismatch { .. } => return invalid(error),
        RingError::Refused { .. } => ErrorKind::PermissionDenied,
        RingError::Late { .. } => ErrorKind::Timeout,
        RingError::Left { .. } => ErrorKind::Closed,
        _ => ErrorKind::Unavailable,
    };
    raise_kind(py, kind, error.to_string())
}
