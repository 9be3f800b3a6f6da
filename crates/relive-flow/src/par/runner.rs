//! Where the streams of shards run.

use std::sync::Arc;
use std::task::Poll;

use super::failure::OnFailure;
use super::parflow::{Make, Plan, Shard};
use super::worker::Worker;
use crate::pull::{Polled, Tagged, Turn};
use crate::{Flow, Result};

/// Where shards run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Executor {
    /// In the thread that pulls, one after the other. The same plan with the same seeds gives the same items, whatever the machine does.
    #[default]
    Serial,
    /// Each shard in a thread of its own, from the first pull until the flow is dropped, which waits for what the shard is doing.
    Threads,
}

/// The stream of a shard, which is made anew if it may be when it fails.
pub(super) struct ShardFlow<T, S> {
    flow: Flow<T>,
    shard: Shard<S>,
    state: Arc<dyn Fn() -> S + Send + Sync>,
    make: Make<T, S>,
    on_failure: OnFailure,
    is_over: bool,
}

impl<T: Send + 'static, S: Send + 'static> ShardFlow<T, S> {
    pub(super) fn new(plan: Plan<T, S>, on_failure: OnFailure) -> Self {
        let Plan { shard, state, make } = plan;
        Self { flow: make(&shard), shard, state, make, on_failure, is_over: false }
    }

    pub(super) fn flow(&mut self) -> &mut Flow<T> {
        &mut self.flow
    }

    /// Whether it has given its last.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// What is given on of what the stream gave; none if it is to be asked again.
    pub(super) fn heed(&mut self, item: Option<Result<Tagged<T>>>) -> Option<Option<Result<Tagged<T>>>> {
        match (&item, self.on_failure) {
            (Some(Err(_)), OnFailure::Restart { times }) if times > 0 => {
                self.on_failure = OnFailure::Restart { times: times - 1 };
                let state = (self.state)();
                self.shard.with(|old| *old = state);
                self.flow = (self.make)(&self.shard);
                return None;
            }
            (Some(Err(_)), OnFailure::Restart { .. } | OnFailure::DropShard) | (None, _) => {
                self.is_over = true;
            }
            (Some(_), _) => {}
        }
        Some(item)
    }
}

/// A shard at work.
pub(super) enum Runner<T, S> {
    /// Here, with the number of items that were asked for.
    Here { flow: ShardFlow<T, S>, wanted: usize },
    /// In a thread.
    Thread(Worker<T>),
}

impl<T: Send + 'static, S: Send + 'static> Runner<T, S> {
    pub(super) fn start(executor: &Executor, plan: Plan<T, S>, on_failure: OnFailure) -> Result<Self> {
        Ok(match executor {
            Executor::Serial => {
                let flow = ShardFlow::new(plan, on_failure);
                Runner::Here { flow, wanted: 0 }
            }
            Executor::Threads => Runner::Thread(Worker::start(plan, on_failure)?),
        })
    }

    /// Asks for so many more items.
    pub(super) fn ask(&mut self, items: usize) {
        match self {
            Runner::Here { wanted, .. } => *wanted += items,
            Runner::Thread(worker) => worker.ask(items),
        }
    }

    /// The next of the items that were asked for.
    pub(super) fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<T> {
        match self {
            Runner::Thread(worker) => worker.poll_next(turn),
            Runner::Here { flow, .. } if flow.is_over() => Poll::Ready(None),
            Runner::Here { flow, wanted } => loop {
                if *wanted == 0 {
                    return Poll::Pending;
                }
                let Poll::Ready(item) = flow.flow().poll_in(turn) else { return Poll::Pending };
                if let Some(item) = flow.heed(item) {
                    *wanted -= 1;
                    return Poll::Ready(item);
                }
            },
        }
    }
}
