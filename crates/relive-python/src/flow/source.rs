//! Iterators of Python as streams.

use std::task::Poll;

use pyo3::exceptions::PyStopIteration;
use pyo3::intern;
use pyo3::prelude::*;
use relive_flow::{Flow, Polled, Pull, Tagged, Turn};

use super::Item;
use super::raise::Failed;

/// The items of an iterator.
struct Items {
    iterable: Py<PyAny>,
    /// None before the first pull.
    iterator: Option<Py<PyAny>>,
}

impl Items {
    fn next(&mut self) -> PyResult<Option<Item>> {
        Python::attach(|py| {
            let iterator = match &self.iterator {
                Some(iterator) => iterator.bind(py).clone(),
                None => {
                    let begun = self.iterable.bind(py).call_method0(intern!(py, "__iter__"))?;
                    self.iterator.insert(begun.unbind()).bind(py).clone()
                }
            };
            match iterator.call_method0(intern!(py, "__next__")) {
                Ok(item) => Ok(Some(Item(item.unbind()))),
                Err(error) if error.is_instance_of::<PyStopIteration>(py) => Ok(None),
                Err(error) => Err(error),
            }
        })
    }
}

impl Pull<Result<Item, Failed>> for Items {
    fn poll_next(&mut self, _: &mut Turn<'_>) -> Polled<Result<Item, Failed>> {
        let item = self.next().map_err(Failed::from).transpose();
        Poll::Ready(item.map(|item| Ok(Tagged { item, source: None })))
    }
}

/// The items of an iterable, which is iterated over once it is pulled at.
pub(super) fn items(name: &str, iterable: Py<PyAny>) -> Flow<Item> {
    Flow::from_pull(name, Items { iterable, iterator: None }).try_for_each(|item| item).named(name)
}
