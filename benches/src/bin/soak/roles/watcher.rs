//! Records the server's memory use, and prints a line of progress.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use crate::world::World;
use relive_benches::Outcome;

const EVERY: Duration = Duration::from_secs(1);
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// Records the server's memory use from `from` on, and checks that it is still running.
pub(crate) async fn memory(world: Arc<World>, from: Instant) -> Outcome {
    tokio::time::sleep_until(from.into()).await;
    loop {
        tokio::time::sleep(EVERY).await;
        if let Some(fault) = world.server.has_ended() {
            return Err(fault.into());
        }
        if let Some(bytes) = world.server.resident_bytes() {
            world.memory.lock().unwrap_or_else(PoisonError::into_inner).push((Instant::now(), bytes));
        }
    }
}

pub(crate) async fn progress(world: Arc<World>, started: Instant, duration: Duration) -> Outcome {
    loop {
        tokio::time::sleep(REPORT_INTERVAL).await;
        let (totals, counts) = (world.model.totals(), &world.counts);
        println!(
            "{:4.0} of {:.0} s: {} items confirmed, {} read and checked, {} whole looks, {} kills, {} checkpoints, {:.0} MB, {} faults",
            started.elapsed().as_secs_f64(),
            duration.as_secs_f64(),
            totals.confirmed,
            totals.checked + counts.streamed.load(Ordering::Relaxed),
            totals.looks,
            counts.kills.load(Ordering::Relaxed),
            counts.checkpoints.load(Ordering::Relaxed),
            world.server.resident_bytes().unwrap_or(0) as f64 / 1e6,
            world.model.faults().len(),
        );
    }
}
