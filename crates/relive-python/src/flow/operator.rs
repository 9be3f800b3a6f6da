//! Operators that call Python functions.

use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyList};
use relive_flow::{Context, Flow, FlowError};

use super::pulled::Pulled;
use super::raise::Failed;
use super::source::{self, Item, Turns};
use crate::interpreter::finalization;
use crate::interpreter::wait::seconds;

/// An operator as `relive.flow` describes it. Functions receive the item and the number of its shard, or -1 if the item
/// does not come from a shard.
#[derive(Clone)]
pub(super) enum Operator {
    /// Applies a function to each item.
    Each(String, Arc<Py<PyAny>>),
    /// Applies a function to up to this number of items at a time, in threads.
    EachInThreads(String, Arc<Py<PyAny>>, usize),
    /// Keeps the items for which a function returns true.
    Filter(String, Arc<Py<PyAny>>),
    /// Yields all items that a function returns for each item.
    Combine(String, Arc<Py<PyAny>>),
    /// Groups items into lists of this length.
    Batch(usize),
    /// Shuffles the items.
    Shuffle(usize, u64),
    /// Applies a function that maps an iterator to an iterator.
    Transform(String, Arc<Py<PyAny>>),
    /// Lists of consecutive items: the length, and the distance between their starts.
    Window(usize, usize),
    /// Lists of the items that arrive within this time.
    WindowByTime(Duration),
    Prefetch(usize),
    /// The maximum wait for an item.
    Timeout(Duration),
    Retry(u32),
    Take(usize),
}

impl<'py> FromPyObject<'_, 'py> for Operator {
    type Error = PyErr;

    fn extract(operator: Borrowed<'_, 'py, PyAny>) -> PyResult<Operator> {
        let kind: String = operator.get_item(0)?.extract()?;
        let function = || Ok::<_, PyErr>(Arc::new(operator.get_item(2)?.unbind()));
        let label = || operator.get_item(1)?.extract::<String>();
        let count = |place: usize| operator.get_item(place)?.extract::<usize>();
        Ok(match kind.as_str() {
            "for_each" => Operator::Each(label()?, function()?),
            "for_each_in_threads" => Operator::EachInThreads(label()?, function()?, count(3)?),
            "filter" => Operator::Filter(label()?, function()?),
            "combine" => Operator::Combine(label()?, function()?),
            "transform" => Operator::Transform(label()?, function()?),
            "batch" => Operator::Batch(count(1)?),
            "shuffle" => Operator::Shuffle(count(1)?, operator.get_item(2)?.extract()?),
            "window" => Operator::Window(count(1)?, count(2)?),
            "window_by_time" => Operator::WindowByTime(seconds(Some(operator.get_item(1)?.extract()?))?),
            "prefetch" => Operator::Prefetch(count(1)?),
            "timeout" => Operator::Timeout(seconds(Some(operator.get_item(1)?.extract()?))?),
            "retry" => Operator::Retry(operator.get_item(1)?.extract()?),
            "take" => Operator::Take(count(1)?),
            _ => return Err(PyValueError::new_err(format!("no operator {kind}"))),
        })
    }
}

impl Operator {
    /// Returns whether the operator has its own thread.
    pub(super) fn has_a_thread(&self) -> bool {
        matches!(self, Operator::Prefetch(_) | Operator::EachInThreads(..))
    }

    /// Applies the operator to the flow of a shard. Each shard is shuffled in its own order.
    pub(super) fn over(&self, flow: Flow<Item>, shard: u32) -> Flow<Item> {
        match self {
            Operator::Each(label, function) => {
                let made = calls(function, |_, made| Ok(Some(Item(made.unbind()))));
                flow.try_filter_map(made).named(label)
            }
            Operator::EachInThreads(label, function, threads) => {
                let function = Arc::clone(function);
                let call = move |context: Context<'_>, item: Item| {
                    finalization::attach_in_turn(|py| {
                        let made = function.bind(py).call1((item.0.bind(py), number_of(&context)))?;
                        Ok::<_, Failed>(Item(made.unbind()))
                    })
                };
                flow.try_for_each_in_threads(*threads, call).named(label)
            }
            Operator::Filter(label, function) => {
                let kept = calls(function, |item, keeps| Ok(keeps.is_truthy()?.then_some(item)));
                flow.try_filter_map(kept).named(label)
            }
            Operator::Combine(label, function) => {
                let many = calls(function, |_, many| Ok(Some(Parts::of(&many)?)));
                flow.try_filter_map(many).named(label).flatten().try_for_each(|item| item).named("items")
            }
            Operator::Batch(size) => listed(flow.batch(*size)).named(&format!("batch({size})")),
            Operator::Window(size, step) => {
                listed(flow.window(*size, *step)).named(&format!("window({size}, {step})"))
            }
            Operator::WindowByTime(within) => {
                listed(flow.window_by_time(*within)).named(&format!("window_by_time({within:?})"))
            }
            Operator::Shuffle(buffer, seed) => flow.shuffle(*buffer, seed.wrapping_add(u64::from(shard))),
            Operator::Transform(label, function) => transformed(flow, label, function),
            Operator::Prefetch(depth) => flow.prefetch(*depth),
            Operator::Timeout(within) => flow.timeout(*within),
            Operator::Retry(times) => flow.retry_if(*times, is_exception),
            Operator::Take(count) => flow.take(*count),
        }
    }
}

/// Calls the function with each item and its source, and converts the result.
fn calls<U>(
    function: &Arc<Py<PyAny>>,
    then: impl Fn(Item, Bound<'_, PyAny>) -> PyResult<Option<U>> + Send + 'static,
) -> impl FnMut(Context<'_>, Item) -> Result<Option<U>, Failed> + Send + 'static {
    let function = Arc::clone(function);
    move |context, item| {
        finalization::attach(|py| {
            let made = function.bind(py).call1((item.0.bind(py), number_of(&context)))?;
            Ok(then(item, made)?)
        })
    }
}

/// Returns the number of the item's shard, or -1 if it does not come from one.
fn number_of(context: &Context<'_>) -> i64 {
    context.source.map_or(-1, |source| i64::from(source.0))
}

/// The items of an iterator, which are produced one by one, up to its first error.
struct Parts {
    items: Option<Py<PyIterator>>,
    turns: Turns,
}

impl Parts {
    fn of(many: &Bound<'_, PyAny>) -> PyResult<Parts> {
        Ok(Parts { items: Some(many.try_iter()?.unbind()), turns: Turns::new() })
    }
}

impl Iterator for Parts {
    type Item = Result<Item, Failed>;

    fn next(&mut self) -> Option<Self::Item> {
        finalization::attach(|py| {
            let items = self.items.as_ref()?.bind(py);
            let item = match self.turns.before_item(py) {
                Ok(()) => items.clone().next()?,
                Err(error) => return Some(Err(Failed::from(error))),
            };
            if item.is_err() {
                self.items = None;
            }
            Some(item.map(|item| Item(item.unbind())).map_err(Failed::from))
        })
    }
}

/// Returns whether an error is an ordinary exception, rather than, for example, `KeyboardInterrupt`.
fn is_exception(error: &FlowError) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<Failed>());
    cause.is_none_or(|failed| finalization::attach(|py| failed.is_exception(py)))
}

fn listed(flow: Flow<Vec<Item>>) -> Flow<Item> {
    flow.try_for_each(|items| {
        finalization::attach(|py| {
            let list = PyList::new(py, items.into_iter().map(|item| item.0))?;
            Ok::<_, Failed>(Item(list.into_any().unbind()))
        })
    })
}

/// The function receives the flow as an iterator, and its result is the new stream.
fn transformed(flow: Flow<Item>, label: &str, function: &Arc<Py<PyAny>>) -> Flow<Item> {
    let made = finalization::attach(|py| {
        let before = Pulled::of(py, flow)?;
        function.bind(py).call1((before,)).map(Bound::unbind)
    });
    match made {
        Ok(made) => source::items(label, made),
        Err(error) => {
            let mut error = Some(Failed::from(error));
            let failed = Flow::from_iter(label, std::iter::from_fn(move || error.take().map(Err::<Item, _>)));
            failed.try_for_each(|item| item).named(label)
        }
    }
}
