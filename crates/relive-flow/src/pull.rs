//! How items are asked for, and what comes with them.

use std::fmt;
use std::task::{Poll, Waker};
use std::time::Instant;

use crate::Result;

/// Where an item comes from: the number of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source(pub u32);

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shard {}", self.0)
    }
}

/// An item and its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tagged<T> {
    /// The item.
    pub item: T,
    /// Its source; none if it has none, or was made of items of several.
    pub source: Option<Source>,
}

impl<T> Tagged<T> {
    /// Another item of the same source.
    #[must_use]
    pub fn with<U>(&self, item: U) -> Tagged<U> {
        Tagged { item, source: self.source }
    }
}

/// What a pull gives: an item, an error, the end, or nothing yet.
pub type Polled<T> = Poll<Option<Result<Tagged<T>>>>;

/// A stream of items that are made when they are asked for.
///
/// After the end it is asked no more. After an error it may be: the next pull goes on with the next item.
pub trait Pull<T>: Send {
    /// The next item. Who has none yet says so by [`Poll::Pending`], after having taken the [`waker`](Turn::waker) that is called once it
    /// has.
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<T>;
}

impl<T> Pull<T> for Box<dyn Pull<T>> {
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<T> {
        (**self).poll_next(turn)
    }
}

/// One pull at the end of a graph, on its way through the operators.
#[derive(Debug)]
pub struct Turn<'a> {
    waker: &'a Waker,
    puller: usize,
    waits: Waits,
    /// When it is to be pulled again at the latest.
    again: Option<Instant>,
}

/// What a pull that gave nothing waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Waits {
    /// Nothing that it has told of.
    #[default]
    ForNothing,
    /// A copy of a stream, which somebody else has to pull.
    ForCopy {
        /// The operator that made the copies.
        operator: String,
    },
    /// Somebody who has taken the waker.
    Outside,
}

impl<'a> Turn<'a> {
    pub(crate) fn new(waker: &'a Waker, puller: usize) -> Self {
        Self { waker, puller, waits: Waits::default(), again: None }
    }

    /// Who is to be woken once there is an item.
    pub fn waker(&mut self) -> &'a Waker {
        self.waits = Waits::Outside;
        self.waker
    }

    /// Asks for another pull at this moment, if nothing wakes the flow before.
    pub fn wake_at(&mut self, moment: Instant) {
        self.waits = Waits::Outside;
        self.again = Some(self.again.map_or(moment, |again| again.min(moment)));
    }

    /// As [`waker`](Self::waker), by an operator whose copies of a stream wait for each other; the waker is called once another copy was pulled.
    pub(crate) fn copy_waker(&mut self, operator: &dyn Fn() -> String) -> &'a Waker {
        if self.waits == Waits::ForNothing {
            self.waits = Waits::ForCopy { operator: operator() };
        }
        self.waker
    }

    /// Who pulls; no two that live at the same time are the same.
    pub(crate) fn puller(&self) -> usize {
        self.puller
    }

    /// What is waited for, and until when at most.
    pub(crate) fn into_waits(self) -> (Waits, Option<Instant>) {
        (self.waits, self.again)
    }
}
