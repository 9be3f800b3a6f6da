//! Reads sampled data back from disk.

use std::future::{Future, Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use relive_table::Sampled;
use relive_tensor::{Chunk, ColdError, ResidenceGuard};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::disk_tier::DiskTier;
use crate::error::EngineError;

/// Samples whose data is being read from disk.
#[derive(Debug)]
pub(crate) struct Fetch {
    table: String,
    samples: Vec<Sampled>,
    reading: Reading,
}

/// A read on a thread of the runtime that is allowed to block. A caller outside any runtime, which has called a blocking
/// function, has read by itself.
#[derive(Debug)]
enum Reading {
    Running(JoinHandle<Result<Vec<Bytes>, ColdError>>),
    Done(Ready<Result<Vec<Bytes>, ColdError>>),
}

impl DiskTier {
    /// Returns the samples if all their data is in memory, where it stays as long as the samples exist.
    ///
    /// # Errors
    /// If any data is on disk, returns a handle to the read, which has already begun; outside a Tokio runtime, it has
    /// ended.
    pub(crate) fn fetch(
        self: &Arc<Self>,
        table: &str,
        mut samples: Vec<Sampled>,
    ) -> Result<Vec<Sampled>, Fetch> {
        let away = keep(&mut samples);
        if away.is_empty() {
            return Ok(samples);
        }
        let cold = Arc::clone(self);
        let read = move || cold.bring_back(&away);
        let reading = match Handle::try_current() {
            Ok(runtime) => Reading::Running(runtime.spawn_blocking(read)),
            Err(_) => Reading::Done(ready(read())),
        };
        Err(Fetch { table: table.to_owned(), samples, reading })
    }

    /// Reads chunks into memory after making room for them.
    fn bring_back(&self, chunks: &[Arc<Chunk>]) -> Result<Vec<Bytes>, ColdError> {
        self.make_room(chunks.iter().map(|chunk| chunk.size_bytes()).sum());
        let read = self.store.fetch(chunks);
        let back: Vec<_> = chunks.iter().filter(|chunk| chunk.is_resident()).cloned().collect();
        self.returned.push(&back);
        self.check_budget();
        read
    }
}

/// Keeps the samples' data in memory, and returns the chunks that are not in memory, each once.
fn keep(samples: &mut [Sampled]) -> Vec<Arc<Chunk>> {
    let mut all_away = Vec::new();
    for sample in samples {
        let (residence_guard, away) = ResidenceGuard::of(sample.item.trajectory.chunks());
        sample.residence_guard = residence_guard;
        all_away.extend(away);
    }
    // Items often share chunks, and an item may be sampled repeatedly.
    all_away.sort_unstable_by_key(Arc::as_ptr);
    all_away.dedup_by(|a, b| Arc::ptr_eq(a, b));
    all_away
}

impl Fetch {
    /// Returns the number of samples.
    pub(crate) fn len(&self) -> usize {
        self.samples.len()
    }

    /// Returns the samples, whether or not their data has been read.
    pub(crate) fn into_samples(self) -> Vec<Sampled> {
        self.samples
    }
}

impl Future for Fetch {
    type Output = Result<Vec<Sampled>, EngineError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let read = match &mut self.reading {
            Reading::Running(task) => {
                std::task::ready!(Pin::new(task).poll(cx)).unwrap_or_else(|broken| Err(Box::new(broken)))
            }
            Reading::Done(read) => std::task::ready!(Pin::new(read).poll(cx)),
        };
        Poll::Ready(match read {
            Ok(frames) => {
                // While the frames are held, all data that was read stays in memory. Chunks that the store does not
                // contain are read from wherever they currently are.
                keep(&mut self.samples);
                drop(frames);
                Ok(std::mem::take(&mut self.samples))
            }
            Err(source) => Err(EngineError::Cold { table: self.table.clone(), source: source.into() }),
        })
    }
}
