//! Messages from shards on other hosts, for `relive.flow`: [`Port`](relive_cluster::stream::Port) and its two ends.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use pyo3::exceptions::{PyRuntimeError, PyTimeoutError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use relive_cluster::stream::{
    Port, PortAccess, ShardWriter, StreamError, Window, WriterAccess, WriterOptions,
};
use relive_flow::{ErrorKind, Flow};

use super::owned::{OwnedFlow, State};
use crate::interpreter::finalization;
use crate::interpreter::fork::Origin;

/// The interval between checks for signals during a wait.
const SLICE: Duration = Duration::from_millis(50);

/// The number of bytes by which a shard may be ahead of its reader.
const WINDOW_BYTES: u64 = 32 << 20;

/// The port on which the readers of this process listen, for writers with a token.
#[pyclass(frozen, module = "relive._native", name = "StreamPort")]
pub(crate) struct PyPort(Apart<Port>);

/// The messages from one shard.
#[pyclass(frozen, module = "relive._native", name = "StreamReader")]
pub(crate) struct PyReader(OwnedFlow<Result<Bytes, StreamError>>);

/// The shard's end.
#[pyclass(frozen, module = "relive._native", name = "StreamWriter")]
pub(crate) struct PyWriter(Apart<ShardWriter>);

/// A value whose drop waits for threads and connections. It is dropped without the interpreter lock. A forked child
/// process has neither these threads nor these connections, and therefore leaks the value.
struct Apart<T: Send> {
    /// `None` only while the value is dropped.
    value: Option<T>,
    origin: Origin,
}

impl<T: Send> Apart<T> {
    fn new(value: T) -> Apart<T> {
        Apart { value: Some(value), origin: Origin::here() }
    }

    fn get(&self) -> &T {
        self.value.as_ref().expect("only the drop takes the value out")
    }
}

impl<T: Send> Drop for Apart<T> {
    fn drop(&mut self) {
        let value = self.value.take();
        if self.origin.is_foreign() {
            std::mem::forget(value);
            return;
        }
        finalization::park_when_finalized();
        // Without an interpreter, the closure is not called, and drops the value itself.
        Python::try_attach(|py| py.detach(move || drop(value)));
    }
}

#[pymethods]
impl PyPort {
    /// Listens on a free port of this host.
    #[new]
    fn new(py: Python<'_>, host: &str, token: String) -> PyResult<PyPort> {
        let host: IpAddr =
            host.parse().map_err(|error| PyValueError::new_err(format!("{host:?}: {error}")))?;
        let access = PortAccess::default().token(token);
        let port = py.detach(|| Port::bind(SocketAddr::new(host, 0), access));
        port.map(|port| PyPort(Apart::new(port))).map_err(|error| raise(&error))
    }

    #[getter]
    fn address(&self) -> String {
        self.0.get().address().to_string()
    }

    /// Returns the reader of a shard; the shard may be up to `messages` messages ahead of it.
    fn reader(&self, shard: u32, messages: u64) -> PyResult<PyReader> {
        let window = Window { items: messages, bytes: WINDOW_BYTES };
        let reader = self.0.get().reader(shard, window).map_err(|error| raise(&error))?;
        Ok(PyReader(OwnedFlow::new(Flow::from_pull("messages", reader))))
    }

    /// Makes the reader of a shard that has permanently failed return the given error.
    fn fail(&self, shard: u32, reason: &str) {
        self.0.get().fail(shard, reason);
    }
}

#[pymethods]
impl PyReader {
    /// Returns the next message, or `None` at the end. `TimeoutError` after `timeout` seconds.
    fn next<'py>(&self, py: Python<'py>, timeout: f64) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let mut left = crate::interpreter::wait::seconds(Some(timeout))?;
        loop {
            let mut flow = match self.0.take(py)? {
                State::Here(flow) => flow,
                State::Taken => return Err(PyValueError::new_err("another thread is reading this shard")),
                State::Closed => return Err(PyValueError::new_err("this reader is closed")),
            };
            let (flow, next) = py.detach(move || {
                let next = flow.next_for(SLICE);
                (flow, next)
            });
            self.0.put(py, flow);
            match next {
                None => return Ok(None),
                Some(Ok(Ok(message))) => return Ok(Some(PyBytes::new(py, &message))),
                Some(Ok(Err(error))) => return Err(raise(&error)),
                Some(Err(error)) if error.kind() == ErrorKind::Timeout => py.check_signals()?,
                Some(Err(error)) => return Err(PyRuntimeError::new_err(error.to_string())),
            }
            left = left.saturating_sub(SLICE);
            if left.is_zero() {
                return Err(PyTimeoutError::new_err("nothing has arrived from the shard"));
            }
        }
    }

    /// Notifies the shard that no more messages are wanted.
    fn close(&self, py: Python<'_>) {
        self.0.close(py);
    }
}

#[pymethods]
impl PyWriter {
    /// Connects to a port.
    #[new]
    fn new(address: &str, shard: u32, token: String) -> PyResult<PyWriter> {
        let access = WriterAccess::default().token(token);
        let options = WriterOptions { shard, access, ..WriterOptions::default() };
        let writer = ShardWriter::connect(address, options).map_err(|error| raise(&error))?;
        Ok(PyWriter(Apart::new(writer)))
    }

    /// Waits until the reader has room for a message. Returns false if the reader accepts no more.
    fn wait_for_room(&self, py: Python<'_>) -> PyResult<bool> {
        loop {
            match py.detach(|| self.0.get().wait_for_room(SLICE)) {
                Ok(true) => return Ok(true),
                Ok(false) => py.check_signals()?,
                Err(StreamError::Closed { .. }) => return Ok(false),
                Err(error) => return Err(raise(&error)),
            }
        }
    }

    /// Sends a message. Returns false if the reader accepts no more.
    fn send(&self, message: &[u8]) -> PyResult<bool> {
        is_open(self.0.get().send(Bytes::copy_from_slice(message)))
    }

    /// Ends the stream, and waits until every message has been read. Returns false if the reader accepts no more.
    fn finish(&self, py: Python<'_>, timeout: f64) -> PyResult<bool> {
        let patience = crate::interpreter::wait::seconds(Some(timeout))?;
        match py.detach(|| self.0.get().finish(patience)) {
            Ok(true) => Ok(true),
            Ok(false) => Err(PyRuntimeError::new_err("the reader has not read the last messages")),
            Err(StreamError::Closed { .. }) => Ok(false),
            Err(error) => Err(raise(&error)),
        }
    }
}

fn is_open(sent: Result<(), StreamError>) -> PyResult<bool> {
    match sent {
        Ok(()) => Ok(true),
        Err(StreamError::Closed { .. }) => Ok(false),
        Err(error) => Err(raise(&error)),
    }
}

fn raise(error: &StreamError) -> PyErr {
    let text = error.to_string();
    match error {
        StreamError::TooLarge { .. } | StreamError::Taken { .. } => PyValueError::new_err(text),
        _ => PyRuntimeError::new_err(text),
    }
}
