//! How inserts that had to wait report back to the stream that brought them.

use std::task::{Context, Poll, Waker};

use crate::error::EngineError;
use crate::sync::Mutex;

/// What became of one insert.
pub type Outcome = Result<u64, EngineError>;

/// The outcomes of inserts that did not happen at once, in the order in which they were settled.
///
/// A stream keeps one behind an `Arc` and hands it to every insert. It may be dropped early: the inserts still happen.
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
    /// Moves every settled outcome to the end of `out`; waits for one if there is none.
    pub fn poll_settled(&self, cx: &Context<'_>, out: &mut Vec<Outcome>) -> Poll<()> {
        let mut state = self.state.lock();
        if state.settled.is_empty() {
            state.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        out.append(&mut state.settled);
        Poll::Ready(())
    }

    /// Moves every settled outcome to the end of `out`, without waiting.
    pub fn take_settled(&self, out: &mut Vec<Outcome>) {
        out.append(&mut self.state.lock().settled);
    }

    /// Adds outcomes and gives whom to wake once no lock is held.
    pub(crate) fn settle(&self, outcomes: impl IntoIterator<Item = Outcome>) -> Option<Waker> {
        let mut state = self.state.lock();
        state.settled.extend(outcomes);
        state.waker.take()
    }
}
