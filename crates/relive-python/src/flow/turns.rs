//! Turns between the items of a shard and the calls of its methods.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, ThreadId};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::pulled::SLICE;
use crate::interpreter::lock::Brief;
use crate::interpreter::wait::WaitLog;

/// Lets one thread at a time use a shard: either its own thread, which makes an item, or a thread that calls one of its
/// methods. Threads have their turns in the order of their requests. A thread that has the turn may call further methods,
/// also those of other shards, for whose turn it does not wait: two shards could wait for each other.
#[pyclass(frozen, module = "relive._native", name = "FlowTurns")]
pub(crate) struct Turns(Arc<Brief<Queue>>);

/// The turns of a shard, for the thread that makes its items.
#[derive(Clone)]
pub(super) struct ItemTurns(Arc<Brief<Queue>>);

/// The thread that has the turn, and those that wait for it.
#[derive(Default)]
struct Queue {
    holder: Option<Holder>,
    waiting: VecDeque<Waiting>,
}

struct Holder {
    thread: ThreadId,
    /// The number of nested calls.
    depth: usize,
    makes_item: bool,
}

struct Waiting {
    thread: ThreadId,
    makes_item: bool,
    given: SyncSender<()>,
}

impl Queue {
    /// Takes the turn, or returns what announces it.
    fn enter(&mut self, thread: ThreadId, makes_item: bool) -> Option<Receiver<()>> {
        match &mut self.holder {
            None => {
                self.holder = Some(Holder { thread, depth: 1, makes_item });
                None
            }
            Some(holder) if holder.thread == thread => {
                holder.depth += 1;
                None
            }
            Some(_) => {
                let (given, turn) = sync_channel(1);
                self.waiting.push_back(Waiting { thread, makes_item, given });
                Some(turn)
            }
        }
    }

    /// Ends the turn, or a nested call, of a thread.
    fn leave(&mut self, thread: ThreadId) {
        // The stream of a shard that did not end in time has lost its turn.
        let Some(holder) = self.holder.as_mut().filter(|holder| holder.thread == thread) else { return };
        holder.depth -= 1;
        if holder.depth == 0 {
            self.pass_on();
        }
    }

    /// Withdraws a request, which may have been granted in the meantime.
    fn withdraw(&mut self, thread: ThreadId) {
        let waited = self.waiting.len();
        self.waiting.retain(|waiting| waiting.thread != thread);
        if self.waiting.len() == waited {
            self.leave(thread);
        }
    }

    fn pass_on(&mut self) {
        let next = self.waiting.pop_front();
        self.holder = next.map(|Waiting { thread, makes_item, given }| {
            // The channel has room, and the thread withdraws its request before it drops the receiver.
            let _ = given.send(());
            Holder { thread, depth: 1, makes_item }
        });
    }
}

thread_local! {
    /// The number of turns that this thread has, nested ones included.
    static TURNS_HERE: Cell<usize> = const { Cell::new(0) };
}

/// A turn, until it is dropped.
struct Held<'a>(&'a Brief<Queue>);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let thread = thread::current().id();
        TURNS_HERE.set(TURNS_HERE.get() - 1);
        self.0.with(|queue| queue.leave(thread));
    }
}

/// Waits for the turn of this thread, with the interpreter released. `between` is called in each slice of the wait.
fn take<'a>(
    queue: &'a Brief<Queue>,
    py: Python<'_>,
    makes_item: bool,
    mut between: impl FnMut() -> PyResult<()>,
) -> PyResult<Held<'a>> {
    let thread = thread::current().id();
    let mut waiting = queue.with(|queue| queue.enter(thread, makes_item));
    while let Some(turn) = waiting.take() {
        let (turn, given) = py.detach(move || {
            let given = turn.recv_timeout(SLICE);
            (turn, given)
        });
        if given == Err(RecvTimeoutError::Timeout) {
            if let Err(error) = between() {
                queue.with(|queue| queue.withdraw(thread));
                return Err(error);
            }
            waiting = Some(turn);
        }
    }
    TURNS_HERE.set(TURNS_HERE.get() + 1);
    Ok(Held(queue))
}

impl ItemTurns {
    /// Calls a function that makes one item, in a turn.
    pub(super) fn with<R>(&self, py: Python<'_>, make: impl FnOnce() -> R) -> R {
        // Without an error from between the slices, the wait does not fail.
        let _held = take(&self.0, py, true, || Ok(()));
        make()
    }
}

impl Turns {
    pub(super) fn of_items(&self) -> ItemTurns {
        ItemTurns(Arc::clone(&self.0))
    }
}

#[pymethods]
impl Turns {
    #[new]
    fn new() -> Turns {
        Turns(Arc::default())
    }

    /// Calls a method of the shard, between two of its items. `name` is its name in the log of a long wait.
    #[pyo3(signature = (name, method, args, kwargs))]
    fn call<'py>(
        &self,
        name: &str,
        method: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = method.py();
        if TURNS_HERE.get() > 0 && !self.is_held_here() {
            return method.call(args, Some(kwargs));
        }
        let mut wait_log = WaitLog::new(name);
        let _held = take(&self.0, py, false, || {
            py.check_signals()?;
            wait_log.tell_if_due(|| {
                "the thread of the shard is making an item, or another thread calls a method; a call waits for its end"
                    .to_owned()
            });
            Ok(())
        })?;
        method.call(args, Some(kwargs))
    }

    /// Returns whether this thread has the turn.
    fn is_held_here(&self) -> bool {
        let thread = thread::current().id();
        self.0.with(|queue| queue.holder.as_ref().is_some_and(|holder| holder.thread == thread))
    }

    /// Ends the turn of the item that the shard's thread is making, so that calls do not wait for it: its stream was
    /// closed.
    fn release_item(&self) {
        self.0.with(|queue| {
            if queue.holder.as_ref().is_some_and(|holder| holder.makes_item) {
                queue.pass_on();
            }
        });
    }
}
