//! The operators of a graph, as they are shown and counted.

use std::any::Any;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::error::Place;
use crate::pull::{Polled, Pull, Source, Turn};
use crate::{ErrorKind, FlowError, Result};

/// An operator and what it pulls from.
#[derive(Debug)]
pub(crate) struct Node {
    name: String,
    inputs: Vec<Arc<Node>>,
    /// Items that have left it. Only who pulls writes.
    items: AtomicU64,
    errors: AtomicU64,
    /// Since when it has been asked for an item and had none, in nanoseconds since the program's first wait; 0 if it is not so.
    waits_since: AtomicU64,
}

/// The moment that waits are counted from.
static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Nanoseconds since then, at least 1.
fn now() -> u64 {
    u64::try_from(BEGUN.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1)
}

impl Node {
    pub(crate) fn new(name: impl Into<String>, inputs: Vec<Arc<Node>>) -> Arc<Self> {
        let [items, errors, waits_since] = [const { AtomicU64::new(0) }; 3];
        Arc::new(Self { name: name.into(), inputs, items, errors, waits_since })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn inputs(&self) -> &[Arc<Node>] {
        &self.inputs
    }

    pub(crate) fn items(&self) -> u64 {
        self.items.load(Ordering::Relaxed)
    }

    pub(crate) fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// For how long it has been asked for an item and had none.
    pub(crate) fn waits(&self) -> Option<Duration> {
        let since = self.waits_since.load(Ordering::Relaxed);
        (since > 0).then(|| Duration::from_nanos(now().saturating_sub(since)))
    }

    /// Takes note of what a pull gave.
    #[inline]
    fn note<T>(&self, polled: &Polled<T>) {
        if polled.is_pending() {
            if self.waits_since.load(Ordering::Relaxed) == 0 {
                self.waits_since.store(now(), Ordering::Relaxed);
            }
            return;
        }
        if self.waits_since.load(Ordering::Relaxed) != 0 {
            self.waits_since.store(0, Ordering::Relaxed);
        }
        match polled {
            Poll::Ready(Some(Ok(_))) => self.items.store(self.items() + 1, Ordering::Relaxed),
            Poll::Ready(Some(Err(_))) => self.errors.store(self.errors() + 1, Ordering::Relaxed),
            Poll::Ready(None) | Poll::Pending => {}
        }
    }

    /// Calls the function of the operator for an item; a panic becomes an error.
    pub(crate) fn call<R>(
        &self,
        source: Option<Source>,
        item: u64,
        function: impl FnOnce() -> R,
    ) -> Result<R> {
        caught(&self.name, source, item, function)
    }

    /// [`call`](Self::call) for a function that may fail.
    pub(crate) fn try_call<R, E>(
        &self,
        source: Option<Source>,
        item: u64,
        function: impl FnOnce() -> Result<R, E>,
    ) -> Result<R>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let done = self.call(source, item, function)?;
        done.map_err(|error| FlowError::caused(self.place(source, item), error.into()))
    }

    fn place(&self, source: Option<Source>, item: u64) -> Place {
        Place { operator: self.name.clone(), source, item }
    }
}

/// Calls a function of an operator; a panic becomes an error.
pub(crate) fn caught<R>(
    operator: &str,
    source: Option<Source>,
    item: u64,
    function: impl FnOnce() -> R,
) -> Result<R> {
    catch_unwind(AssertUnwindSafe(function)).map_err(|panic| {
        let place = Place { operator: operator.to_owned(), source, item };
        FlowError::at(ErrorKind::Panicked, place, panic_text(&*panic))
    })
}

/// What a panic said.
fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

/// An operator whose items are counted, and whose panics are errors.
pub(crate) struct Counted<P> {
    pub(crate) pull: P,
    pub(crate) node: Arc<Node>,
}

impl<T, P: Pull<T>> Pull<T> for Counted<P> {
    #[inline]
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<T> {
        let pulled = self.node.call(None, self.node.items(), || self.pull.poll_next(turn));
        let polled = pulled.unwrap_or_else(|error| Poll::Ready(Some(Err(error))));
        self.node.note(&polled);
        polled
    }
}
