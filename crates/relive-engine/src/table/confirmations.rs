//! Reports the outcomes of waiting inserts to their stream.

use std::task::{Context, Poll, Waker};

use crate::error::EngineError;
use crate::sync::Mutex;

/// The outcome of one insert: its key, or an error.
pub type Outcome = Result<u64, EngineError>;

/// The outcomes of deferred inserts, in the order in which they were settled.
///
/// A stream keeps one instance in an `Arc` and passes it to every insert. If the stream drops it early, the inserts
/// still happen.
#[derive(Debug)]
pub struct Confirmations {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    settled: Vec<Outcome>,
    waker: Option<Waker>,
}

impl Default for Confirmations {
    fn default() -> Self {
        Self { state: Mutex::new(State::default()) }
    }
}

impl Confirmations {
    /// Appends every settled outcome to `out`, and waits for one if there is none.
    pub fn poll_settled(&self, cx: &Context<'_>, out: &mut Vec<Outcome>) -> Poll<()> {
        let mut state = self.state.lock();
        if state.settled.is_empty() {
            state.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        out.append(&mut state.settled);
        Poll::Ready(())
    }

    /// Appends every settled outcome to `out`, without waiting.
    pub fn take_settled(&self, out: &mut Vec<Outcome>) {
        out.append(&mut self.state.lock().settled);
    }

    /// Adds outcomes, and returns the waker that the caller must wake once it holds no lock.
    pub(crate) fn settle(&self, outcomes: impl IntoIterator<Item = Outcome>) -> Option<Waker> {
        let mut state = self.state.lock();
        state.settled.extend(outcomes);
        state.waker.take()
    }
}
