//! Readers that use calls, and readers that use streams.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use relive_client::{BatchOptions, Client};

use crate::world::{TABLE, World};
use relive_benches::Outcome;

use crate::content;

const BATCH: usize = 32;

/// The number of batches of a stream before it is reopened.
const BATCHES: usize = 500;

/// Pause between two reads, so that writers and readers share the machine.
const PAUSE: Duration = Duration::from_millis(2);

/// Samples with calls, none of which may return an item that was deleted before the call.
pub(crate) async fn calls(world: Arc<World>, client: Client) -> Outcome {
    loop {
        let (begun, started) = (world.model.now(), Instant::now());
        match client.sample(TABLE, BATCH).await {
            Ok(samples) => {
                if world.model.same_life(begun) {
                    world.samples.record(started);
                }
                for sample in &samples {
                    match content::number(sample) {
                        Ok(number) => world.model.seen(number, None, begun),
                        Err(error) => world.model.fault(error.to_string()),
                    }
                }
            }
            Err(error) => world.failed(&error),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Reads streams of batches, which are prefetched, so only the content of items can be checked.
pub(crate) async fn stream(world: Arc<World>, client: Client) -> Outcome {
    loop {
        let mut batches = client.batches(TABLE, BatchOptions::new(BATCH).max_batches(BATCHES))?;
        while let Some(batch) = batches.next().await {
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => {
                    world.failed(&error);
                    break;
                }
            };
            for sample in batch.samples() {
                if let Err(error) = content::number(sample) {
                    world.model.fault(error.to_string());
                }
            }
            world.counts.streamed.fetch_add(BATCH as u64, Ordering::Relaxed);
            tokio::time::sleep(PAUSE).await;
        }
    }
}
