//! Where the streams of shards run.

use std::task::Poll;

use super::crew::Taken;
use super::parflow::{Around, Plan};
use super::worker::Worker;
use crate::checkpoint::Checkpoint;
use crate::error::Place;
use crate::node::caught;
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

/// What happens when the stream of a shard gives an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// The error is given on. The shard goes on with its next item.
    #[default]
    GiveOn,
    /// The shard ends; the others go on. The error is given on if it was the last.
    DropShard,
    /// The shard is made anew, with a new state, so many times; then the error is given on, and the shard ends.
    Restart {
        /// How many times, over its whole life.
        times: u32,
    },
}

/// The stream of a shard, which is made where it runs, and made anew if it may be when it fails.
pub(crate) struct ShardFlow<T> {
    name: String,
    flow: Option<Flow<T>>,
    make: Box<dyn FnMut() -> Option<Flow<T>> + Send>,
    on_failure: OnFailure,
    taken: Taken,
    is_over: bool,
}

impl<T: Send + 'static> ShardFlow<T> {
    /// The shard of a plan; `begun` is called each time that its stream was made.
    pub(super) fn of<S: Send + 'static>(
        plan: Plan<T, S>,
        on_failure: OnFailure,
        begun: impl Fn(&Flow<T>) + Send + 'static,
    ) -> Self {
        let Plan { shard, state, make } = plan;
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
        Self { name, flow: None, make: Box::new(make), on_failure, taken: Taken::AsTheyCome, is_over: false }
    }

    /// One that is there already.
    pub(crate) fn one(name: &str, flow: Flow<T>) -> Self {
        let (name, make, on_failure) = (name.to_owned(), Box::new(|| None), OnFailure::GiveOn);
        Self { name, flow: Some(flow), make, on_failure, taken: Taken::AsTheyCome, is_over: false }
    }

    /// The same, pulled like this.
    pub(crate) fn taken(self, taken: Taken) -> Self {
        Self { taken, ..self }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The stream.
    ///
    /// # Errors
    /// The function that makes it panics.
    pub(super) fn flow(&mut self) -> Result<Option<&mut Flow<T>>> {
        if self.flow.is_none() && !self.is_over {
            let place = || Place { operator: self.name.clone(), source: None, item: 0 };
            self.flow = caught(place, &mut self.make)?;
        }
        self.flow.iter_mut().for_each(|flow| flow.taken = self.taken);
        Ok(self.flow.as_mut())
    }

    /// Whether it has given its last.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Applies the failure policy to what the stream gave: what the puller gets of it, or none if the stream is to be asked again.
    pub(super) fn after(&mut self, item: Option<Result<Tagged<T>>>) -> Option<Option<Result<Tagged<T>>>> {
        match (&item, self.on_failure) {
            (Some(Err(_)), OnFailure::Restart { times }) if times > 0 => {
                self.on_failure = OnFailure::Restart { times: times - 1 };
                self.flow = None;
                return None;
            }
            (Some(Err(_)), OnFailure::Restart { .. } | OnFailure::DropShard) | (None, _) => self.end(),
            // It could not be made, and will not be.
            (Some(Err(_)), OnFailure::GiveOn) if self.flow.is_none() => self.end(),
            (Some(_), _) => {}
        }
        Some(item)
    }

    /// # Errors
    /// The stream cannot be made, or not be saved.
    fn checkpoint(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
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

/// A shard at work.
pub(super) enum Runner<T> {
    /// Here, with the number of items that were asked for.
    Here { flow: ShardFlow<T>, wanted: usize },
    /// In a thread.
    Thread(Worker<T>),
}

impl<T: Send + 'static> Runner<T> {
    pub(super) fn start(executor: &Executor, around: Option<Around>, flow: ShardFlow<T>) -> Result<Self> {
        Ok(match executor {
            Executor::Serial => Runner::Here { flow, wanted: 0 },
            Executor::Threads => Runner::Thread(Worker::start(flow, around)?),
        })
    }

    pub(super) fn checkpoint(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        match self {
            Runner::Here { flow, wanted } => {
                checkpoint.count(wanted);
                flow.checkpoint(checkpoint)
            }
            Runner::Thread(_) => Err(checkpoint.refusal("shards in threads cannot be saved")),
        }
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
            Runner::Here { flow, wanted } => loop {
                if flow.is_over() {
                    return Poll::Ready(None);
                }
                if *wanted == 0 {
                    return Poll::Pending;
                }
                let item = match flow.flow() {
                    Ok(Some(stream)) => match stream.poll_in(turn) {
                        Poll::Ready(item) => item,
                        Poll::Pending => return Poll::Pending,
                    },
                    Ok(None) => None,
                    Err(error) => Some(Err(error)),
                };
                if let Some(item) = flow.after(item) {
                    *wanted -= 1;
                    return Poll::Ready(item);
                }
            },
        }
    }
}
