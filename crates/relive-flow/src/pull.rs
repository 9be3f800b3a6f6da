//! How items are asked for, and what comes with them.

use std::task::{Poll, Waker};
use std::time::Instant;

use crate::Result;
use crate::checkpoint::Checkpoint;
use crate::item::Tagged;
use crate::waits::Need;

/// What a pull gives: an item, an error, the end, or nothing yet.
pub type Polled<T> = Poll<Option<Result<Tagged<T>>>>;

/// A stream of items that are made when they are asked for.
///
/// After the end it is asked no more. After an error it may be: the next pull goes on with the next item.
pub trait Pull<T>: Send {
    /// The next item. Who has none yet says so by [`Poll::Pending`], after having taken the [`waker`](Turn::waker)
    /// that is called once it has.
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<T>;

    /// Writes to a checkpoint where the stream is, or reads it from one, before the first pull; see
    /// [`Flow::checkpoint`](crate::Flow::checkpoint).
    ///
    /// # Errors
    /// The stream cannot be saved: so it is if this is not implemented.
    fn checkpoint(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        Err(checkpoint.refusal("it does not say where it is (Pull::checkpoint), and so cannot be saved"))
    }
}

impl<T> Pull<T> for Box<dyn Pull<T>> {
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<T> {
        (**self).poll_next(turn)
    }

    fn checkpoint(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        (**self).checkpoint(checkpoint)
    }
}

/// How the items of shards are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// As they come: every shard that has one is heeded.
    AsTheyCome,
    /// In turn: while one shard is waited for, the others are not pulled.
    InTurn,
}

/// One pull at the end of a graph, on its way through the operators.
#[derive(Debug)]
pub struct Turn<'a> {
    waker: &'a Waker,
    taken: Taken,
    stop: Stop<'a>,
    pending: Pending,
}

/// Where a pull stops that looks into the graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stop<'a> {
    /// Nowhere.
    #[default]
    Never,
    /// Once the operator of this name has made something.
    At(&'a str),
    /// It has stopped: nothing else is done in this pull.
    Stopped,
}

/// What a pull that gave nothing waits for.
#[derive(Debug)]
pub(crate) struct Pending {
    /// All of what could give it an item; none if that is not known, since somebody has taken the waker.
    pub(crate) needs: Option<Vec<Need>>,
    /// When it is to be pulled again at the latest.
    pub(crate) again: Option<Instant>,
}

impl Default for Pending {
    fn default() -> Self {
        Self { needs: Some(Vec::new()), again: None }
    }
}

impl Pending {
    /// Whether it waits for nothing that it has told of.
    pub(crate) fn is_for_nothing(&self) -> bool {
        self.needs.as_ref().is_some_and(Vec::is_empty)
    }

    fn needs(&mut self, more: impl IntoIterator<Item = Need>) {
        if let Some(needs) = &mut self.needs {
            needs.extend(more);
        }
    }
}

impl<'a> Turn<'a> {
    pub(crate) fn new(waker: &'a Waker, taken: Taken) -> Self {
        Self { waker, taken, stop: Stop::Never, pending: Pending::default() }
    }

    /// The same pull, which stops there.
    pub(crate) fn stopping(self, stop: Stop<'a>) -> Self {
        Self { stop, ..self }
    }

    /// Where it stops.
    #[inline]
    pub(crate) fn stop(&self) -> Stop<'a> {
        self.stop
    }

    /// Nothing else is done in this pull.
    pub(crate) fn set_stopped(&mut self) {
        self.stop = Stop::Stopped;
    }

    /// Whether nothing else is to be done in this pull: what pulls in a part of the graph that has stopped keeps
    /// everything as it is.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stop == Stop::Stopped
    }

    /// A pull at a part of the graph that wakes somebody else. What it waits for goes into this one by
    /// [`follow`](Self::follow).
    pub(crate) fn over<'b>(&self, waker: &'b Waker) -> Turn<'b>
    where
        'a: 'b,
    {
        Turn::new(waker, self.taken).stopping(self.stop)
    }

    /// Waits for what a pull at a part of the graph waits for.
    pub(crate) fn follow(&mut self, part: Turn<'_>) {
        if part.is_stopped() {
            self.set_stopped();
        }
        match part.pending.needs {
            Some(needs) => self.pending.needs(needs),
            None => drop(self.waker()),
        }
        part.pending.again.into_iter().for_each(|moment| self.wake_at(moment));
    }

    /// Who is to be woken once there is an item.
    pub fn waker(&mut self) -> &'a Waker {
        self.pending.needs = None;
        self.waker
    }

    /// Asks for another pull at this moment, if nothing wakes the flow before.
    pub fn wake_at(&mut self, moment: Instant) {
        self.pending.needs = None;
        let again = self.pending.again;
        self.pending.again = Some(again.map_or(moment, |again| again.min(moment)));
    }

    /// As [`waker`](Self::waker), by who knows what in the graph will wake it, so that it is noticed if nothing does.
    pub(crate) fn waker_for(&mut self, need: Need) -> &'a Waker {
        self.pending.needs([need]);
        self.waker
    }

    /// The waker of who pulls, for a waker that is taken elsewhere.
    pub(crate) fn outer_waker(&self) -> &'a Waker {
        self.waker
    }

    /// How the shard is pulled whose stream this pull is in.
    pub(crate) fn taken(&self) -> Taken {
        self.taken
    }

    /// Pulls are in another shard from now on; how the one before is pulled.
    pub(crate) fn set_taken(&mut self, taken: Taken) -> Taken {
        std::mem::replace(&mut self.taken, taken)
    }

    /// What is waited for.
    pub(crate) fn into_pending(self) -> Pending {
        self.pending
    }
}
