//! A client that samples.

use std::sync::atomic::Ordering;

use relive_client::{BatchOptions, BatchSampler, Client, ColumnLayout, Result, Sample, SampleBatch, Tensor};
use tokio::time::{Instant, timeout_at};

use super::plan::Plan;
use super::tally::Tally;

/// Samples batches until the end of the run.
pub(super) async fn run(client: Client, plan: Plan) -> Tally {
    let mut tally = Tally::new();
    let batch_size = usize::try_from(plan.batch).unwrap_or(usize::MAX);
    // While one batch is decoded, the next one is in flight.
    let result = match client.batches(&plan.table, BatchOptions::new(batch_size).prefetch(1)) {
        Ok(mut batches) => {
            timeout_at(plan.end, sample_from(&mut batches, &plan, &mut tally)).await.unwrap_or(Ok(()))
        }
        Err(error) => Err(error),
    };
    tally.errors.extend(result.err());
    tally
}

async fn sample_from(batches: &mut BatchSampler, plan: &Plan, tally: &mut Tally) -> Result<()> {
    let mut columns = Vec::new();
    loop {
        let begun = Instant::now();
        let Some(batch) = batches.next_within(None).await.transpose()? else { return Ok(()) };
        let bytes = decode(&batch, &mut columns)?;
        let items = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        tally.batch(items, bytes, begun.elapsed());
        plan.live.sampled.fetch_add(items, Ordering::Relaxed);
    }
}

/// Decodes a batch column by column into reused memory, and returns its size. Data that is already decoded stays in
/// place; items that do not form arrays are decoded one by one.
fn decode(batch: &SampleBatch, columns: &mut Vec<Vec<u8>>) -> Result<u64> {
    let Some(layouts) = batch.columns().ok().filter(|layouts| sizes(layouts, batch.len()).is_some()) else {
        return batch.samples().iter().map(decoded_bytes).sum();
    };
    let sizes = sizes(&layouts, batch.len()).unwrap_or_default();
    columns.resize(sizes.len(), Vec::new());
    for (column, size) in columns.iter_mut().zip(&sizes) {
        column.resize(*size, 0);
    }
    let missing = columns.iter_mut().enumerate().filter(|(number, _)| batch.column_memory(*number).is_none());
    batch.gather_columns_into(missing.map(|(number, column)| (number, column.as_mut_slice())))?;
    Ok(sizes.iter().map(|size| *size as u64).sum())
}

/// Returns the number of bytes in each column, or `None` if one contains strings.
fn sizes(layouts: &[ColumnLayout], samples: usize) -> Option<Vec<usize>> {
    layouts.iter().map(|layout| layout.size_bytes(samples)).collect()
}

fn decoded_bytes(sample: &Sample) -> Result<u64> {
    Ok(sample.columns()?.iter().map(Tensor::size_bytes).sum())
}
