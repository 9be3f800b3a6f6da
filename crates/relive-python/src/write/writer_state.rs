//! The state of a writer.

use std::time::Duration;

use parking_lot::MutexGuard;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use relive_client::{Client, TrajectoryWriter as RustWriter, Windows};

use super::layout::{Layout, Leaves};
use crate::error::{OrRaise, raise_kind};
use crate::interpreter::fork::Origin;
use crate::interpreter::lock::Exclusive;
use crate::interpreter::wait::{self, Operation};

/// The state that a writer and the columns of its history share.
pub(crate) struct Shared {
    pub(crate) state: Exclusive<State>,
}

pub(crate) struct State {
    /// `None` once the writer is closed.
    pub(crate) writer: Option<RustWriter>,
    pub(crate) layout: Layout,
    /// The number of times that the columns were forgotten.
    pub(crate) forgotten: u64,
    pub(crate) client: Client,
    /// The timeout for calls that do not set one.
    pub(crate) limit: Duration,
    pub(crate) origin: Origin,
    /// Whether steps and errors follow dm-reverb.
    pub(crate) as_reverb: bool,
}

impl Drop for State {
    fn drop(&mut self) {
        if self.origin.is_foreign() {
            std::mem::forget(self.writer.take());
        }
    }
}

impl Shared {
    /// Returns the state. Fails if another thread is using it, because a wait that holds the interpreter might never
    /// end.
    pub(crate) fn lock(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, State>> {
        let state = self.state.lock()?;
        state.origin.check(py, "writer")?;
        Ok(state)
    }
}

impl State {
    pub(crate) fn writer(&self, py: Python<'_>) -> PyResult<&RustWriter> {
        self.writer.as_ref().ok_or_else(|| closed(py))
    }

    pub(crate) fn writer_mut(&mut self, py: Python<'_>) -> PyResult<&mut RustWriter> {
        self.writer.as_mut().ok_or_else(|| closed(py))
    }

    /// Creates items from all columns, and returns their keys.
    pub(crate) fn make_windows(
        &mut self,
        py: Python<'_>,
        what: &str,
        table: &str,
        priorities: &[f64],
        windows: Windows<'_>,
    ) -> PyResult<Vec<u64>> {
        let State { writer, client, layout, .. } = self;
        let writer = writer.as_mut().ok_or_else(|| closed(py))?;
        let why = || wait::reason_of(client, table, Operation::Insert);
        while !writer.agree_on_steps(table, |_| layout.structure(py)).or_raise(py)? {
            wait::wait_because(py, what, writer.wait_until_ready(table), why)?.or_raise(py)?;
        }
        match writer.try_create_window_items(table, priorities, windows).or_raise(py)? {
            Some(keys) => Ok(keys),
            None => {
                let items = writer.create_window_items(table, priorities, windows);
                wait::wait_because(py, what, items, why)?.or_raise(py)
            }
        }
    }

    pub(crate) fn history_len(&self) -> usize {
        self.writer.as_ref().map_or(0, |writer| usize::try_from(writer.history().len()).unwrap_or(usize::MAX))
    }

    /// Returns the leaves of a step by column; new places become new columns.
    pub(crate) fn place<'py>(&mut self, step: &Bound<'py, PyAny>) -> PyResult<(Leaves<'py>, Option<Layout>)> {
        if let Some(leaves) = self.layout.place(step)? {
            return Ok((leaves, None));
        }
        let grown = self.layout.grown(step)?;
        let leaves = grown
            .place(step)?
            .ok_or_else(|| PyValueError::new_err("the step was changed while it was read"))?;
        Ok((leaves, Some(grown)))
    }
}

pub(crate) fn closed(py: Python<'_>) -> PyErr {
    raise_kind(py, relive_client::ErrorKind::Closed, "TrajectoryWriter::Close has been called.".to_owned())
}
