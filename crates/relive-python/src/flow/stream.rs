//! A flow of objects.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use relive_flow::{ErrorKind, Flow, Lead, Monitor, Order, Ratio, Stepped, Weight};

use super::operator::Operator;
use super::owned::{OwnedFlow, State};
use super::pulled::{SLICE, awaited};
use super::raise::raise;
use super::source::{self, Item};
use crate::interpreter::wait::{WaitLog, seconds};

/// A flow from which one thread at a time pulls, or a part of another flow.
#[pyclass(frozen, module = "relive._native", name = "FlowStream")]
pub(crate) struct Stream {
    flow: OwnedFlow,
    /// Whether the end was reached, after which no item is pulled.
    is_over: AtomicBool,
    /// Whether a pull may hold the interpreter, because no other thread holds a lock of this graph while it is waiting
    /// for the interpreter.
    is_apart: bool,
    monitor: Monitor,
}

impl Stream {
    /// Returns a stream of a flow whose graph no other thread pulls from.
    pub(super) fn new(flow: Flow<Item>) -> Stream {
        Stream::of_graph(flow, true)
    }

    /// Returns a stream of a flow. `is_apart` must be false if another thread may pull from a part of the flow, or the
    /// flow has a thread that must be joined.
    pub(super) fn of_graph(flow: Flow<Item>, is_apart: bool) -> Stream {
        let monitor = flow.monitor();
        Stream { monitor, flow: OwnedFlow::new(flow), is_over: AtomicBool::new(false), is_apart }
    }

    /// Takes the flow out of this stream.
    fn taken(&self, py: Python<'_>) -> PyResult<Flow<Item>> {
        match self.flow.take(py)? {
            State::Here(flow) => Ok(flow),
            State::Taken => Err(PyValueError::new_err(
                "this iterator is already part of another one, or another thread is using it; duplicate() splits one into several",
            )),
            State::Closed => Err(PyValueError::new_err("this iterator is closed")),
        }
    }

    /// Takes the flows out of several streams, or out of none of them.
    fn all_taken(py: Python<'_>, streams: &[&Stream]) -> PyResult<Vec<Flow<Item>>> {
        let mut flows = Vec::with_capacity(streams.len());
        for stream in streams {
            match stream.taken(py) {
                Ok(flow) => flows.push(flow),
                Err(error) => {
                    flows.into_iter().zip(streams).for_each(|(flow, stream)| stream.flow.put(py, flow));
                    return Err(error);
                }
            }
        }
        Ok(flows)
    }

    /// Returns an item that is ready or that this thread itself makes. Neither releases the interpreter nor waits.
    fn ready(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        if !self.is_apart {
            return Ok(None);
        }
        let mut flow = self.taken(py)?;
        let stepped = flow.step();
        self.flow.put(py, flow);
        match stepped.map_err(|error| raise(py, &error))? {
            Stepped::Item(item) => return Ok(Some(item.0)),
            Stepped::End => self.is_over.store(true, Ordering::Relaxed),
            Stepped::Waiting | Stepped::Stopped => {}
        }
        Ok(None)
    }

    /// Pulls from the flow without the interpreter, because functions of the graph may need it in other threads.
    fn pull<T: Send>(&self, py: Python<'_>, pull: impl FnOnce(&mut Flow<Item>) -> T + Send) -> PyResult<T> {
        let mut flow = self.taken(py)?;
        let (flow, pulled) = py.detach(move || {
            let pulled = pull(&mut flow);
            (flow, pulled)
        });
        self.flow.put(py, flow);
        Ok(pulled)
    }
}

#[pymethods]
impl Stream {
    /// Returns the items of an iterable.
    #[staticmethod]
    fn of(name: &str, iterable: Py<PyAny>) -> Stream {
        Stream::new(source::items(name, iterable))
    }

    #[expect(clippy::needless_pass_by_value, reason = "PyO3 passes it by value")]
    fn then(&self, py: Python<'_>, operator: Operator) -> PyResult<Stream> {
        let is_apart = self.is_apart && !operator.has_a_thread();
        Ok(Stream::of_graph(operator.over(self.taken(py)?, 0), is_apart))
    }

    /// Returns the next item in a tuple, or `None` at the end.
    fn next(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<(Py<PyAny>,)>> {
        let mut left = timeout.map(|limit| seconds(Some(limit))).transpose()?;
        if !self.is_over.load(Ordering::Relaxed)
            && let Some(item) = self.ready(py)?
        {
            return Ok(Some((item,)));
        }
        if self.is_over.load(Ordering::Relaxed) {
            return Ok(None);
        }
        self.flow.set_interrupted(false);
        let mut wait_log = WaitLog::new("a pull from a stream of relive.flow");
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
                    py.check_signals().inspect_err(|_| self.flow.set_interrupted(true))?;
                    wait_log.tell_if_due(|| awaited(&self.monitor));
                    left = left.map(|left| left.saturating_sub(slice));
                    if left.is_some_and(|left| left.is_zero()) {
                        return Err(raise(py, &error));
                    }
                }
                Some(Err(error)) => return Err(raise(py, &error)),
            }
        }
    }

    /// Pulls once without waiting, at most up to an operator. Returns the outcome (`item`, `waiting`, `stopped` or
    /// `end`) and the item in a tuple.
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

    /// Returns copies. A copy that is ahead by `max_lead` items waits, or the others lose their oldest items.
    fn copies(
        &self,
        py: Python<'_>,
        count: usize,
        max_lead: usize,
        drops_oldest: bool,
    ) -> PyResult<Vec<Stream>> {
        let lead = if drops_oldest { Lead::dropping_oldest(max_lead) } else { Lead::waiting(max_lead) };
        let copies = self.taken(py)?.copies(count, lead).into_iter();
        Ok(copies.map(|copy| Stream::of_graph(copy, false)).collect())
    }

    /// Merges several flows: in proportion to weights, alternately, or as items arrive.
    #[staticmethod]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 passes lists by value")]
    fn union(
        py: Python<'_>,
        streams: Vec<PyRef<'_, Stream>>,
        is_deterministic: bool,
        weights: Option<Vec<Option<f64>>>,
    ) -> PyResult<Stream> {
        let is_apart = streams.iter().all(|stream| stream.is_apart);
        let flows = Stream::all_taken(py, &streams.iter().map(|stream| &**stream).collect::<Vec<_>>())?;
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

    /// Zips two flows.
    #[staticmethod]
    fn in_ratio(
        py: Python<'_>,
        inserts: &Stream,
        samples: &Stream,
        samples_per_insert: f64,
        min_inserted: u64,
        tolerance: Option<f64>,
    ) -> PyResult<Stream> {
        let exact = Ratio::exact(samples_per_insert, min_inserted);
        let ratio = Ratio { tolerance: tolerance.unwrap_or(exact.tolerance), ..exact };
        let is_apart = inserts.is_apart && samples.is_apart;
        let mut flows = Stream::all_taken(py, &[inserts, samples])?.into_iter();
        let pair = flows.next().zip(flows.next());
        let (inserts, samples) = pair.ok_or_else(|| PyValueError::new_err("a ratio needs two streams"))?;
        Ok(Stream::of_graph(Flow::in_ratio(inserts, samples, ratio), is_apart))
    }

    /// Closes the stream and its shards. Returns whether all have ended.
    fn close(&self, py: Python<'_>) -> bool {
        self.flow.close(py)
    }

    /// Returns the graph as text, or as a mermaid diagram.
    fn show(&self, py: Python<'_>, is_mermaid: bool) -> PyResult<String> {
        self.pull(py, |flow| if is_mermaid { flow.mermaid() } else { flow.show() })
    }

    /// Returns the number of items of each operator and its current wait, as JSON.
    fn operators(&self) -> String {
        self.monitor.to_json()
    }
}
