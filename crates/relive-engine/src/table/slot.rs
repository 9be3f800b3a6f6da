//! Where a waiter finds its result: written once by whoever serves it, read once by the waiter.

use std::task::{Context, Poll, Waker};

use crate::sync::Mutex;

/// A place for one result and for the task that waits for it.
#[derive(Debug)]
pub(crate) struct Slot<T> {
    state: Mutex<State<T>>,
}

#[derive(Debug)]
enum State<T> {
    Empty(Option<Waker>),
    Full(T),
    Taken,
}

impl<T> Slot<T> {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(State::Empty(None)) }
    }

    /// Stores the result. The waker, if there is one, is to be woken once no lock is held.
    pub(crate) fn fill(&self, value: T) -> Option<Waker> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Full(value)) {
            State::Empty(waker) => waker,
            State::Full(_) | State::Taken => None,
        }
    }

    /// Takes the result, or remembers whom to wake.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<T> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Taken) {
            State::Full(value) => Poll::Ready(value),
            State::Empty(_) | State::Taken => {
                *state = State::Empty(Some(cx.waker().clone()));
                Poll::Pending
            }
        }
    }

    /// Takes the result if it is there.
    pub(crate) fn take(&self) -> Option<T> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Taken) {
            State::Full(value) => Some(value),
            other => {
                *state = other;
                None
            }
        }
    }
}
