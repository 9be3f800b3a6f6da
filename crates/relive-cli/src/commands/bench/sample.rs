//! A client that samples.

use std::sync::atomic::Ordering;

use relive_client::{Client, Result, Sample, Sampler, SamplerOptions, Tensor};
use tokio::time::{Instant, timeout_at};

use super::plan::Plan;
use super::tally::Tally;

/// Samples batches until the end of the run.
pub(super) async fn run(client: Client, plan: Plan) -> Tally {
    let mut tally = Tally::new();
    let result = match client.sampler(&plan.table, options(&plan)) {
        Ok(mut sampler) => {
            timeout_at(plan.end, sample_from(&mut sampler, &plan, &mut tally)).await.unwrap_or(Ok(()))
        }
        Err(error) => Err(error),
    };
    tally.errors.extend(result.err());
    tally
}

/// The next batch is on its way while one is decoded, and one stream lasts for the whole run.
fn options(plan: &Plan) -> SamplerOptions {
    let batches = usize::try_from(plan.batch.saturating_mul(2)).unwrap_or(usize::MAX);
    SamplerOptions::default().max_in_flight_samples_per_worker(batches).max_samples_per_stream(usize::MAX)
}

async fn sample_from(sampler: &mut Sampler, plan: &Plan, tally: &mut Tally) -> Result<()> {
    let batch_size = usize::try_from(plan.batch).unwrap_or(usize::MAX);
    loop {
        let begun = Instant::now();
        let batch = sampler.next_batch(batch_size).await?;
        let mut bytes = 0;
        for sample in &batch {
            bytes += decoded_bytes(sample)?;
        }
        let items = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        tally.batch(items, bytes, begun.elapsed());
        plan.live.sampled.fetch_add(items, Ordering::Relaxed);
    }
}

fn decoded_bytes(sample: &Sample) -> Result<u64> {
    Ok(sample.columns()?.iter().map(Tensor::size_bytes).sum())
}
