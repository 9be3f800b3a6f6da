//! What a worker's process makes for the driver of the run: the part of the plan before its workers come together.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use relive_flow::Flow;

use super::Message;
use crate::{Acted, Result, RlError, state};

/// The place of a worker's process in a plan.
#[derive(Default)]
pub(crate) struct WorkerOutput {
    stream: Mutex<Option<Stream>>,
    episodes: AtomicU64,
    env_steps: AtomicU64,
}

/// What a worker has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Worked {
    /// Episodes that it has ended.
    pub episodes: u64,
    /// Steps in its environments.
    pub env_steps: u64,
}

/// What a worker makes, ready to be sent.
pub(crate) enum Stream {
    /// An item for each round that is ordered.
    Rounds(Flow<Vec<u8>>),
    /// Items one after the other.
    AsTheyCome(Flow<Vec<u8>>),
    /// What it has done, which is told now and then.
    Acting(Flow<Vec<Acted>>),
}

impl WorkerOutput {
    /// Counts what was done here.
    pub(crate) fn note(&self, acted: &[Acted]) {
        for acted in acted {
            self.env_steps.fetch_add(acted.env_steps, Ordering::Relaxed);
            self.episodes.fetch_add(acted.episodes.len() as u64, Ordering::Relaxed);
        }
    }

    /// What was done here so far.
    pub(crate) fn worked(&self) -> Worked {
        let [episodes, env_steps] = [&self.episodes, &self.env_steps].map(|n| n.load(Ordering::Relaxed));
        Worked { episodes, env_steps }
    }

    /// An item of `flow` is made for each round.
    pub(crate) fn rounds<T: Message>(&self, flow: Flow<T>) {
        self.serve(Stream::Rounds(to_bytes(flow)));
    }

    /// Items of `flow` are made one after the other.
    pub(crate) fn as_they_come<T: Message>(&self, flow: Flow<T>) {
        self.serve(Stream::AsTheyCome(to_bytes(flow)));
    }

    /// `flow` acts; what it has done is told now and then.
    pub(crate) fn acting(&self, flow: Flow<Vec<Acted>>) {
        self.serve(Stream::Acting(flow));
    }

    fn serve(&self, stream: Stream) {
        *self.stream.lock() = Some(stream);
    }

    /// # Errors
    /// The plan has none.
    pub(crate) fn take(&self) -> Result<Stream> {
        let none = RlError::Order { call: "a worker", needs: "a plan whose workers come together" };
        self.stream.lock().take().ok_or(none)
    }
}

fn to_bytes<T: Message>(flow: Flow<T>) -> Flow<Vec<u8>> {
    flow.try_for_each(|mut item| {
        let mut visited = Ok(());
        let bytes = state::save(|state| visited = item.visit(state));
        visited.map(|()| bytes)
    })
}
