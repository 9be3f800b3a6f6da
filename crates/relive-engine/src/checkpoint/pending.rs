//! A checkpoint to come, and those who wait for it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use relive_table::SavedCheckpoint;

use crate::error::EngineError;
use crate::sync::Mutex;

/// What a checkpoint has come to.
pub(crate) type CheckpointOutcome = Result<SavedCheckpoint, EngineError>;

/// A checkpoint that was asked for, and that holds everything which was in the tables then.
///
/// It is written on a thread of its own, whether or not anybody waits for it: dropping this ends nothing.
///
/// # Errors
/// What the checkpointer says, or that it has panicked.
#[derive(Debug)]
#[must_use = "a checkpoint may fail, which is told here"]
pub struct PendingCheckpoint {
    run: Arc<Run>,
    /// Where our waker is among those of the run.
    waker: Option<usize>,
}

/// The one result of a checkpoint, for all who share it.
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

    /// Tells all who wait, and all who will ask.
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
    /// What the checkpointer says, or that it has panicked.
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
