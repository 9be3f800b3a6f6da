//! The result of a waiter, written once by the thread that serves it and read once by the waiter.

use std::task::{Context, Poll, Waker};

use crate::sync::Mutex;

/// Holds one result, and the waker of the task that is waiting for it.
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

    /// Stores the result. The caller must wake the returned waker once it holds no lock.
    pub(crate) fn fill(&self, value: T) -> Option<Waker> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Full(value)) {
            State::Empty(waker) => waker,
            State::Full(_) | State::Taken => None,
        }
    }

    /// Takes the result, or stores the waker.
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

    /// Takes the result if it is available.
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
