//! A shard: its state, the recipe for its stream, and the stream itself.

use std::sync::Arc;
use std::task::Poll;

use parking_lot::Mutex;

use super::executor::{Around, Executor, OnFailure};
use crate::checkpoint::Checkpoint;
use crate::error::Place;
use crate::item::{Source, Tagged};
use crate::node::caught;
use crate::pull::{Polled, Pull, TakeOrder, Turn};
use crate::{Flow, Result};

/// A shard: its number, and its state, which the shard's operators share.
#[derive(Debug)]
pub struct Shard<S> {
    number: u32,
    pub(super) source: Source,
    state: Arc<Mutex<S>>,
}

impl<S> Clone for Shard<S> {
    fn clone(&self) -> Self {
        Self { number: self.number, source: self.source, state: Arc::clone(&self.state) }
    }
}

impl<S> Shard<S> {
    pub(super) fn new(number: u32, state: S) -> Self {
        Self { number, source: Source(number), state: Arc::new(Mutex::new(state)) }
    }

    /// Returns the number of the shard among the shards that were created together.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the source of the shard's items: the shard's number, until [`ParFlow::union`](crate::ParFlow::union) or
    /// [`ParFlow::select_shards`](crate::ParFlow::select_shards) changes its position.
    #[must_use]
    pub fn source(&self) -> Source {
        self.source
    }

    /// Calls `function` with exclusive access to the state. With [`gather_sync`](crate::ParFlow::gather_sync), a change
    /// between two rounds affects the whole next round; otherwise it affects later calls to operators.
    pub fn with<R>(&self, function: impl FnOnce(&mut S) -> R) -> R {
        function(&mut self.state.lock())
    }
}

/// The recipe for creating and restarting a shard.
pub(super) struct Plan<T, S> {
    pub(super) shard: Shard<S>,
    pub(super) executor: Executor,
    pub(super) state: Arc<dyn Fn() -> S + Send + Sync>,
    pub(super) make: Make<T, S>,
    pub(super) around: Option<Around>,
}

/// Creates the stream of a shard.
pub(super) type Make<T, S> = Arc<dyn Fn(&Shard<S>) -> Flow<T> + Send + Sync>;

/// Sets the source of all items of a shard.
pub(super) fn of_shard<T: Send + 'static>(flow: Flow<T>, source: Source) -> Flow<T> {
    flow.within(|upstream| OfShard { upstream, source })
}

struct OfShard<T> {
    upstream: Box<dyn Pull<T>>,
    source: Source,
}

impl<T> Pull<T> for OfShard<T> {
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<T> {
        match self.upstream.poll_next(turn) {
            Poll::Ready(Some(Ok(tagged))) => {
                Poll::Ready(Some(Ok(Tagged { source: Some(self.source), ..tagged })))
            }
            other => other,
        }
    }

    fn checkpoint(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        self.upstream.checkpoint(checkpoint)
    }
}

/// The stream of a shard. It is created in the thread that runs it, and may be restarted after a failure.
pub(crate) struct ShardFlow<T> {
    name: String,
    pub(super) executor: Executor,
    /// Called by the thread of the shard around the production of items.
    pub(super) around: Option<Around>,
    flow: Option<Flow<T>>,
    make: Box<dyn FnMut() -> Option<Flow<T>> + Send>,
    on_failure: OnFailure,
    take_order: TakeOrder,
    is_over: bool,
}

impl<T: Send + 'static> ShardFlow<T> {
    /// Creates the shard of a plan. `begun` is called each time its stream has been created.
    pub(super) fn of<S: Send + 'static>(
        plan: Plan<T, S>,
        on_failure: OnFailure,
        begun: impl Fn(&Flow<T>) + Send + 'static,
    ) -> Self {
        let Plan { shard, executor, state, make, around } = plan;
        let (name, mut is_first) = (shard.source().to_string(), true);
        let make = move || {
            if !std::mem::take(&mut is_first) {
                let state = state();
                shard.with(|old| *old = state);
            }
            let flow = make(&shard);
            begun(&flow);
            Some(flow)
        };
        Self {
            name,
            executor,
            around,
            flow: None,
            make: Box::new(make),
            on_failure,
            take_order: TakeOrder::Arrival,
            is_over: false,
        }
    }

    /// Wraps an existing flow, for a thread.
    pub(crate) fn one(name: &str, flow: Flow<T>) -> Self {
        Self {
            name: name.to_owned(),
            executor: Executor::Threads,
            around: None,
            flow: Some(flow),
            make: Box::new(|| None),
            on_failure: OnFailure::ContinueShard,
            take_order: TakeOrder::Arrival,
            is_over: false,
        }
    }

    /// Sets how the stream is pulled.
    pub(crate) fn take_order(self, take_order: TakeOrder) -> Self {
        Self { take_order, ..self }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the stream.
    ///
    /// # Errors
    /// The function that creates the stream panics.
    pub(super) fn flow(&mut self) -> Result<Option<&mut Flow<T>>> {
        if self.flow.is_none() && !self.is_over {
            let place = || Place { operator: self.name.clone(), source: None, item: 0 };
            self.flow = caught(place, &mut self.make)?;
        }
        self.flow.iter_mut().for_each(|flow| flow.take_order = self.take_order);
        Ok(self.flow.as_mut())
    }

    /// Returns whether the stream is over.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Applies the failure policy to a result of the stream. Returns the result for the puller, or nothing if
    /// the stream should be polled again.
    pub(super) fn after(&mut self, item: Option<Result<Tagged<T>>>) -> Option<Option<Result<Tagged<T>>>> {
        match (&item, self.on_failure) {
            (Some(Err(_)), OnFailure::Restart { times }) if times > 0 => {
                self.on_failure = OnFailure::Restart { times: times - 1 };
                self.flow = None;
                return None;
            }
            (Some(Err(_)), OnFailure::Restart { .. } | OnFailure::DropShard) | (None, _) => self.end(),
            // The stream could not be created, and cannot be created later.
            (Some(Err(_)), OnFailure::ContinueShard) if self.flow.is_none() => self.end(),
            (Some(_), _) => {}
        }
        Some(item)
    }

    /// # Errors
    /// The stream cannot be created or saved.
    pub(super) fn checkpoint(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        if let OnFailure::Restart { times } = &mut self.on_failure {
            let mut left = u64::from(*times);
            checkpoint.number(&mut left);
            *times = u32::try_from(left).unwrap_or(u32::MAX);
        }
        self.flow()?.map_or(Ok(()), |flow| flow.pull.checkpoint(checkpoint))
    }

    fn end(&mut self) {
        self.is_over = true;
        self.flow = None;
    }
}
