//! Python objects in graphs, and Python iterators as streams.

use std::task::Poll;

use pyo3::prelude::*;
use pyo3::types::PyIterator;
use relive_flow::{Flow, Polled, Pull, Tagged, Turn};

use super::raise::Failed;
use crate::interpreter::finalization;

/// An object in a graph.
pub(super) struct Item(pub(super) Py<PyAny>);

impl Clone for Item {
    fn clone(&self) -> Item {
        finalization::attach(|py| Item(self.0.clone_ref(py)))
    }
}

/// The items of an iterable.
struct Items {
    iterable: Py<PyAny>,
    /// `None` before the first pull.
    iterator: Option<Py<PyIterator>>,
}

impl Items {
    fn next(&mut self) -> PyResult<Option<Item>> {
        finalization::attach(|py| {
            let iterator = match &self.iterator {
                Some(iterator) => iterator.clone_ref(py),
                None => self.iterator.insert(self.iterable.bind(py).try_iter()?.unbind()).clone_ref(py),
            };
            let item = iterator.into_bound(py).next();
            item.map(|item| item.map(|item| Item(item.unbind()))).transpose()
        })
    }
}

impl Pull<Result<Item, Failed>> for Items {
    fn poll_next(&mut self, _: &mut Turn<'_>) -> Polled<Result<Item, Failed>> {
        let item = self.next().map_err(Failed::from).transpose();
        Poll::Ready(item.map(|item| Ok(Tagged { item, source: None })))
    }
}

/// Returns the items of an iterable; iteration starts with the first pull.
pub(super) fn items(name: &str, iterable: Py<PyAny>) -> Flow<Item> {
    Flow::from_pull(name, Items { iterable, iterator: None }).try_for_each(|item| item).named(name)
}
