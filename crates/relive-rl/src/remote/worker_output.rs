//! The output of a worker's process for the driver of the run: the part of the plan before the workers'
//! streams are merged.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use relive_flow::Flow;

use super::Message;
use super::message::to_bytes;
use crate::{Acted, Result, RlError};

/// The output of a worker's process.
#[derive(Default)]
pub(crate) struct WorkerOutput {
    stream: Mutex<Option<Stream>>,
    episodes: AtomicU64,
    env_steps: AtomicU64,
}

/// The counters of a worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Worked {
    /// The number of finished episodes.
    pub episodes: u64,
    /// The number of steps in the worker's environments.
    pub env_steps: u64,
}

/// The stream of a worker, ready to be sent.
pub(crate) enum Stream {
    /// One item per ordered round.
    Rounds(Flow<Vec<u8>>),
    /// A sequence of items.
    ArrivalOrder(Flow<Vec<u8>>),
    /// Reports, which are sent periodically.
    Acting(Flow<Vec<Acted>>),
}

impl WorkerOutput {
    /// Adds the work of this process.
    pub(crate) fn note(&self, acted: &[Acted]) {
        for acted in acted {
            self.env_steps.fetch_add(acted.env_steps, Ordering::Relaxed);
            self.episodes.fetch_add(acted.episodes.len() as u64, Ordering::Relaxed);
        }
    }

    /// Returns the work of this process so far.
    pub(crate) fn worked(&self) -> Worked {
        let [episodes, env_steps] = [&self.episodes, &self.env_steps].map(|n| n.load(Ordering::Relaxed));
        Worked { episodes, env_steps }
    }

    /// Sends one item of `flow` per round.
    pub(crate) fn rounds<T: Message>(&self, flow: Flow<T>) {
        self.serve(Stream::Rounds(in_bytes(flow)));
    }

    /// Sends the items of `flow` one after the other.
    pub(crate) fn in_arrival_order<T: Message>(&self, flow: Flow<T>) {
        self.serve(Stream::ArrivalOrder(in_bytes(flow)));
    }

    /// Acts by pulling from `flow`, and sends its reports periodically.
    pub(crate) fn acting(&self, flow: Flow<Vec<Acted>>) {
        self.serve(Stream::Acting(flow));
    }

    fn serve(&self, stream: Stream) {
        *self.stream.lock() = Some(stream);
    }

    /// # Errors
    /// The plan does not gather its workers, so there is no stream to send.
    pub(crate) fn take(&self) -> Result<Stream> {
        let none = RlError::Order { call: "a worker", needs: "a plan that gathers its workers" };
        self.stream.lock().take().ok_or(none)
    }
}

fn in_bytes<T: Message>(flow: Flow<T>) -> Flow<Vec<u8>> {
    flow.try_for_each(|mut item| to_bytes(&mut item))
}
