//! Python objects in graphs, and Python iterators as streams.

use std::task::Poll;
use std::time::{Duration, Instant};

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

/// The value that an iterator returns while it has no item. A union then continues with its other streams, and the
/// iterator is polled again, unless its flow has been dropped in the meantime.
#[pyclass(frozen, module = "relive._native", name = "FlowNotYet")]
pub(crate) struct NotYet;

#[pymethods]
impl NotYet {
    #[new]
    fn new() -> NotYet {
        NotYet
    }
}

/// The number of items after which the clock and the signals are checked.
const ITEMS_PER_CHECK: u32 = 1024;

/// Python's own interval between threads, `sys.getswitchinterval()`.
const SWITCH_INTERVAL: Duration = Duration::from_millis(5);

/// The time until a source that had no item is asked again, unless its stream is pulled earlier.
const RETRY_AFTER: Duration = Duration::from_millis(1);

/// Gives signal handlers and other threads their turn while an iterator is pulled repeatedly, because iterators written
/// in C, such as a range, give them none.
pub(super) struct Turns {
    items: u32,
    since: Instant,
}

impl Turns {
    pub(super) fn new() -> Turns {
        Turns { items: 0, since: Instant::now() }
    }

    /// Call this before each item.
    ///
    /// # Errors
    /// A signal handler raised this exception.
    pub(super) fn before_item(&mut self, py: Python<'_>) -> PyResult<()> {
        self.items = (self.items + 1) % ITEMS_PER_CHECK;
        if self.items > 0 {
            return Ok(());
        }
        py.check_signals()?;
        if self.since.elapsed() >= SWITCH_INTERVAL {
            py.detach(|| ());
            self.since = Instant::now();
        }
        Ok(())
    }
}

/// The items of an iterable.
struct Items {
    /// `None` only while the items are dropped.
    iterable: Option<Py<PyAny>>,
    /// `None` before the first pull.
    iterator: Option<Py<PyIterator>>,
    turns: Turns,
}

/// An iterator may own a part of the graph. It is dropped now, with the interpreter, because otherwise PyO3 would drop it
/// in a later call of any thread.
impl Drop for Items {
    fn drop(&mut self) {
        finalization::park_when_finalized();
        Python::try_attach(|_| drop((self.iterator.take(), self.iterable.take())));
    }
}

impl Items {
    fn next(&mut self) -> Poll<PyResult<Option<Item>>> {
        finalization::attach(|py| {
            if let Err(error) = self.turns.before_item(py) {
                return Poll::Ready(Err(error));
            }
            let iterator = match (&self.iterator, &self.iterable) {
                (Some(iterator), _) => iterator.clone_ref(py),
                (None, None) => return Poll::Ready(Ok(None)),
                (None, Some(iterable)) => match iterable.bind(py).try_iter() {
                    Ok(iterator) => self.iterator.insert(iterator.unbind()).clone_ref(py),
                    Err(error) => return Poll::Ready(Err(error)),
                },
            };
            match iterator.into_bound(py).next().transpose() {
                Ok(Some(item)) if item.is_exact_instance_of::<NotYet>() => Poll::Pending,
                item => Poll::Ready(item.map(|item| item.map(|item| Item(item.unbind())))),
            }
        })
    }
}

impl Pull<Result<Item, Failed>> for Items {
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<Result<Item, Failed>> {
        let Poll::Ready(item) = self.next() else {
            turn.not_ready_until(Instant::now() + RETRY_AFTER);
            return Poll::Pending;
        };
        let item = item.map_err(Failed::from).transpose();
        Poll::Ready(item.map(|item| Ok(Tagged { item, source: None })))
    }
}

/// Returns the items of an iterable; iteration starts with the first pull.
pub(super) fn items(name: &str, iterable: Py<PyAny>) -> Flow<Item> {
    Flow::from_pull(name, Items { iterable: Some(iterable), iterator: None, turns: Turns::new() })
        .try_for_each(|item| item)
        .named(name)
}
