//! A flow of objects.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use relive_flow::{ErrorKind, Flow, Monitor, Order, Ratio, Stepped, Weight};

use super::operator::Operator;
use super::raise::raise;
use super::source::{self, Item};
use crate::lock::Brief;

/// How often signals are looked at while an item is waited for.
const SLICE: Duration = Duration::from_millis(50);

/// A flow that one thread pulls at a time, or a part of another one.
#[pyclass(frozen, module = "relive._native", name = "FlowStream")]
pub(crate) struct Stream {
    flow: Brief<Option<Flow<Item>>>,
    /// It is not pulled at any more once it has ended.
    is_over: AtomicBool,
    /// Whether a pull may hold the interpreter: no other thread has a lock of this graph while it waits for the
    /// interpreter.
    is_apart: bool,
    monitor: Monitor,
}

impl Stream {
    /// A flow whose graph nobody else pulls.
    pub(super) fn new(flow: Flow<Item>) -> Stream {
        Stream::of_graph(flow, true)
    }

    /// A flow with a part that another thread may pull, or that is a thread whose end is waited for, unless the graph
    /// `is_apart`.
    pub(super) fn of_graph(flow: Flow<Item>, is_apart: bool) -> Stream {
        let monitor = flow.monitor();
        Stream { monitor, flow: Brief::new(Some(flow)), is_over: AtomicBool::new(false), is_apart }
    }

    /// The flow, which is this one no more.
    fn taken(&self) -> PyResult<Flow<Item>> {
        self.flow.take().ok_or_else(|| {
            PyValueError::new_err(
                "this iterator is part of another one already, or another thread pulls at it; duplicate() makes several of one",
            )
        })
    }

    /// An item that is there, or that this very thread makes: neither the interpreter is let go of for it, nor is
    /// anything waited for.
    fn ready(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        if !self.is_apart {
            return Ok(None);
        }
        let mut flow = self.taken()?;
        let stepped = flow.step();
        self.flow.replace(Some(flow));
        match stepped.map_err(|error| raise(py, &error))? {
            Stepped::Item(item) => return Ok(Some(item.0)),
            Stepped::End => self.is_over.store(true, Ordering::Relaxed),
            Stepped::Waiting | Stepped::Stopped => {}
        }
        Ok(None)
    }

    /// Pulls at the flow without the interpreter, which functions of the graph may take in other threads.
    fn pull<T: Send>(&self, py: Python<'_>, pull: impl FnOnce(&mut Flow<Item>) -> T + Send) -> PyResult<T> {
        let mut flow = self.taken()?;
        let (flow, pulled) = py.detach(move || {
            let pulled = pull(&mut flow);
            (flow, pulled)
        });
        self.flow.replace(Some(flow));
        Ok(pulled)
    }
}

#[pymethods]
impl Stream {
    /// The items of an iterable.
    #[staticmethod]
    fn of(name: &str, iterable: Py<PyAny>) -> Stream {
        Stream::new(source::items(name, iterable))
    }

    #[expect(clippy::needless_pass_by_value, reason = "PyO3 hands it over by value")]
    fn then(&self, operator: Operator) -> PyResult<Stream> {
        let is_apart = self.is_apart && !operator.has_a_thread();
        Ok(Stream::of_graph(operator.over(self.taken()?), is_apart))
    }

    /// The next item, in a tuple; none at the end.
    fn next(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<(Py<PyAny>,)>> {
        if !self.is_over.load(Ordering::Relaxed)
            && let Some(item) = self.ready(py)?
        {
            return Ok(Some((item,)));
        }
        if self.is_over.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let mut left = timeout.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
        loop {
            let slice = left.map_or(SLICE, |left| left.min(SLICE));
            let next = self.pull(py, |flow| match timeout {
                Some(_) => flow.next_within(slice),
                None => flow.next_for(slice),
            });
            match next? {
                None => {
                    self.is_over.store(true, Ordering::Relaxed);
                    return Ok(None);
                }
                Some(Ok(item)) => return Ok(Some((item.0,))),
                Some(Err(error)) if error.kind() == ErrorKind::Timeout => {
                    py.check_signals()?;
                    left = left.map(|left| left.saturating_sub(slice));
                    if left == Some(Duration::ZERO) {
                        return Err(raise(py, &error));
                    }
                }
                Some(Err(error)) => return Err(raise(py, &error)),
            }
        }
    }

    /// Pulls once, without waiting, at most to an operator: what came of it (`item`, `waiting`, `stopped` or `end`),
    /// and the item in a tuple.
    fn step(&self, py: Python<'_>, to: Option<String>) -> PyResult<(&'static str, Option<(Py<PyAny>,)>)> {
        if self.is_over.load(Ordering::Relaxed) {
            return Ok(("end", None));
        }
        let stepped = self.pull(py, |flow| match to {
            Some(to) => flow.step_to(&to),
            None => flow.step(),
        })?;
        Ok(match stepped.map_err(|error| raise(py, &error))? {
            Stepped::Item(item) => ("item", Some((item.0,))),
            Stepped::Waiting => ("waiting", None),
            Stepped::Stopped => ("stopped", None),
            Stepped::End => {
                self.is_over.store(true, Ordering::Relaxed);
                ("end", None)
            }
        })
    }

    fn copies(&self, count: usize, max_lead: usize) -> PyResult<Vec<Stream>> {
        let copies = self.taken()?.copies(count, max_lead).into_iter();
        Ok(copies.map(|copy| Stream::of_graph(copy, false)).collect())
    }

    /// Several flows as one; with weights, of which none takes all that are there, or in turn, or as they come.
    #[staticmethod]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 hands lists over by value")]
    fn union(
        streams: Vec<PyRef<'_, Stream>>,
        is_deterministic: bool,
        weights: Option<Vec<Option<f64>>>,
    ) -> PyResult<Stream> {
        let is_apart = streams.iter().all(|stream| stream.is_apart);
        let flows = streams.iter().map(|stream| stream.taken()).collect::<PyResult<Vec<_>>>()?;
        let order = match weights {
            Some(weights) => {
                let weights = weights.into_iter().map(|times| times.map_or(Weight::All, Weight::Times));
                Order::weighted(weights)
            }
            None if is_deterministic => Order::RoundRobin,
            None => Order::Ready,
        };
        Ok(Stream::of_graph(Flow::union(flows, order), is_apart))
    }

    /// Two flows that keep step.
    #[staticmethod]
    fn in_ratio(
        inserts: &Stream,
        samples: &Stream,
        samples_per_insert: f64,
        min_inserted: u64,
    ) -> PyResult<Stream> {
        let ratio = Ratio::exact(samples_per_insert, min_inserted);
        let is_apart = inserts.is_apart && samples.is_apart;
        let flow = Flow::in_ratio(inserts.taken()?, samples.taken()?, ratio);
        Ok(Stream::of_graph(flow, is_apart))
    }

    /// Ends it: its shards, too.
    fn close(&self, py: Python<'_>) {
        self.end(py);
    }

    /// The graph as text, or for mermaid.
    fn show(&self, py: Python<'_>, is_mermaid: bool) -> PyResult<String> {
        self.pull(py, |flow| if is_mermaid { flow.mermaid() } else { flow.show() })
    }

    /// What each operator has given and waits for, as JSON.
    fn operators(&self) -> String {
        self.monitor.to_json()
    }
}

/// How long the end of shards is waited for when a stream is dropped.
const GRACE: Duration = Duration::from_secs(1);

impl Drop for Stream {
    fn drop(&mut self) {
        Python::try_attach(|py| self.end(py));
    }
}

impl Stream {
    /// Ends the shards, without the interpreter, which they may need for what they are doing. One that does not end
    /// is left to itself.
    fn end(&self, py: Python<'_>) {
        let Some(flow) = self.flow.take() else { return };
        let (done, is_done) = sync_channel(1);
        let end = move || {
            drop(flow);
            // Nobody listens any more if it took long.
            let _ = done.send(());
        };
        let started = std::thread::Builder::new().name("relive-flow-end".to_owned()).spawn(end).is_ok();
        py.detach(move || started.then(|| is_done.recv_timeout(GRACE)));
    }
}
