//! A pending checkpoint, and the callers that are waiting for it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use relive_table::SavedCheckpoint;

use crate::error::EngineError;
use crate::sync::Mutex;

/// The result of a checkpoint.
pub(crate) type CheckpointOutcome = Result<SavedCheckpoint, EngineError>;

/// A requested checkpoint, which contains everything that was in the tables at the time of the request.
///
/// The checkpoint is written by its own thread, whether or not a caller waits for it. Dropping this value does not
/// cancel it.
///
/// # Errors
/// The checkpointer's error, or an error if the checkpointer panicked.
#[derive(Debug)]
#[must_use = "this value reports whether the checkpoint failed"]
pub struct PendingCheckpoint {
    run: Arc<Run>,
    /// The index of this caller's waker among the wakers of the run.
    waker: Option<usize>,
}

/// The result of a checkpoint, for all callers that share it.
#[derive(Debug)]
pub(crate) struct Run {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    outcome: Option<CheckpointOutcome>,
    wakers: Vec<Waker>,
}

impl Run {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(State::default()) }
    }

    /// Publishes the result to current and future callers.
    pub(crate) fn finish(&self, outcome: CheckpointOutcome) {
        let wakers = {
            let mut state = self.state.lock();
            state.outcome = Some(outcome);
            std::mem::take(&mut state.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    fn poll(&self, cx: &Context<'_>, own: &mut Option<usize>) -> Poll<CheckpointOutcome> {
        let mut state = self.state.lock();
        if let Some(outcome) = &state.outcome {
            return Poll::Ready(outcome.clone());
        }
        match own.and_then(|at| state.wakers.get_mut(at)) {
            Some(waker) => waker.clone_from(cx.waker()),
            None => {
                *own = Some(state.wakers.len());
                state.wakers.push(cx.waker().clone());
            }
        }
        Poll::Pending
    }
}

impl PendingCheckpoint {
    pub(crate) fn new(run: Arc<Run>) -> Self {
        Self { run, waker: None }
    }

    /// Blocks the calling thread until the checkpoint is written.
    ///
    /// # Errors
    /// The checkpointer's error, or an error if the checkpointer panicked.
    pub fn wait(mut self) -> Result<SavedCheckpoint, EngineError> {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut cx = Context::from_waker(&waker);
        loop {
            if let Poll::Ready(outcome) = Pin::new(&mut self).poll(&mut cx) {
                return outcome;
            }
            std::thread::park();
        }
    }
}

impl Future for PendingCheckpoint {
    type Output = Result<SavedCheckpoint, EngineError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { run, waker } = &mut *self;
        run.poll(cx, waker)
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
