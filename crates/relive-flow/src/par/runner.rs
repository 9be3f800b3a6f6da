//! A running shard, in this thread or in another thread.

use std::task::Poll;

use super::executor::Executor;
use super::shard::ShardFlow;
use super::worker::Worker;
use crate::Result;
use crate::checkpoint::Checkpoint;
use crate::pull::{Polled, Turn};

/// A running shard.
pub(super) enum Runner<T> {
    /// A shard in the pulling thread, with the number of requested items.
    Here { flow: ShardFlow<T>, wanted: usize },
    /// A shard in its own thread.
    Thread(Worker<T>),
}

impl<T: Send + 'static> Runner<T> {
    pub(super) fn start(flow: ShardFlow<T>) -> Result<Self> {
        Ok(match flow.executor {
            Executor::Serial => Runner::Here { flow, wanted: 0 },
            Executor::Threads => Runner::Thread(Worker::start(flow)?),
        })
    }

    pub(super) fn checkpoint(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        match self {
            Runner::Here { flow, wanted } => {
                checkpoint.count(wanted);
                flow.checkpoint(checkpoint)
            }
            Runner::Thread(_) => Err(checkpoint.refusal("shards that run in threads cannot be saved")),
        }
    }

    /// Requests the given number of further items.
    pub(super) fn ask(&mut self, items: usize) {
        match self {
            Runner::Here { wanted, .. } => *wanted += items,
            Runner::Thread(worker) => worker.ask(items),
        }
    }

    /// Returns the next of the requested items.
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
