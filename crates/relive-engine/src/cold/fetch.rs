//! Bringing back what was sampled.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use relive_table::Sampled;
use relive_tensor::{Chunk, ColdError};
use tokio::task::JoinHandle;

use super::Cold;
use crate::EngineError;
use crate::state::SampleResult;

/// Samples whose data is being read from disk, on a thread that may be blocked.
#[derive(Debug)]
pub(crate) struct Fetch {
    table: String,
    samples: Vec<Sampled>,
    reading: JoinHandle<Result<(), ColdError>>,
}

impl Cold {
    /// The samples, if all their data is in memory.
    ///
    /// # Errors
    /// The reading of the rest, which has begun.
    pub(crate) fn fetch(&self, table: &str, samples: Vec<Sampled>) -> Result<Vec<Sampled>, Fetch> {
        let chunks = samples.iter().flat_map(|sample| sample.item.trajectory.chunks());
        let away: Vec<Arc<Chunk>> = chunks.filter(|chunk| !chunk.is_resident()).cloned().collect();
        if away.is_empty() {
            return Ok(samples);
        }
        let store = Arc::clone(&self.store);
        let reading = tokio::task::spawn_blocking(move || store.fetch(&away));
        Err(Fetch { table: table.to_owned(), samples, reading })
    }
}

impl Fetch {
    /// How many samples it is about.
    pub(crate) fn len(&self) -> usize {
        self.samples.len()
    }

    /// The samples, whether or not their data has come.
    pub(crate) fn into_samples(self) -> Vec<Sampled> {
        self.samples
    }
}

impl Future for Fetch {
    type Output = SampleResult;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<SampleResult> {
        let Poll::Ready(read) = Pin::new(&mut self.reading).poll(cx) else { return Poll::Pending };
        let read = read.unwrap_or_else(|broken| Err(Box::new(broken)));
        Poll::Ready(match read {
            Ok(()) => Ok(std::mem::take(&mut self.samples)),
            Err(source) => Err(EngineError::Cold { table: self.table.clone(), source: source.into() }),
        })
    }
}
