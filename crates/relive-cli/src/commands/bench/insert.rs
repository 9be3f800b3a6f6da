//! A client that inserts.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

use relive_client::{Client, Nest, Result, Tensor, TrajectoryWriter, TrajectoryWriterOptions};
use tokio::time::{Instant, timeout_at};

use super::plan::Plan;
use super::tally::Tally;

/// The number of batches in flight: one is written while the server confirms the previous one.
const BATCHES_IN_FLIGHT: u32 = 2;

/// How long to wait, after the measurement, for batches in flight.
const GRACE: Duration = Duration::from_secs(1);

/// Opens a writer, and sends an item to establish its connection.
pub(super) async fn open(client: Client, plan: Plan) -> Result<TrajectoryWriter> {
    let mut writer = client.trajectory_writer(options(&plan))?;
    insert(&mut writer, &plan.table, plan.payload.step(0)).await?;
    // A limiter may block the item indefinitely; the run will report that.
    let _ = writer.flush(GRACE).await;
    Ok(writer)
}

/// Inserts batches until the end of the run.
pub(super) async fn run(mut writer: TrajectoryWriter, plan: Plan) -> Tally {
    let mut tally = Tally::new();
    let result = timeout_at(plan.end, insert_on(&mut writer, &plan, &mut tally)).await;
    // The remaining items are not measured, because a limiter may block them indefinitely.
    let _ = writer.close_with_timeout(GRACE).await;
    tally.errors.extend(result.unwrap_or(Ok(())).err());
    tally
}

/// Inserts `items` items before the measurement.
pub(super) async fn fill(client: &Client, plan: &Plan, items: u32) -> Result<()> {
    let mut writer = client.trajectory_writer(options(plan))?;
    for number in 0..items {
        insert(&mut writer, &plan.table, plan.payload.step(number)).await?;
    }
    writer.close().await
}

fn options(plan: &Plan) -> TrajectoryWriterOptions {
    let pending = usize::try_from(plan.batch.saturating_mul(BATCHES_IN_FLIGHT)).unwrap_or(usize::MAX);
    TrajectoryWriterOptions::new(1).chunk_length(1).max_pending_items(pending)
}

async fn insert_on(writer: &mut TrajectoryWriter, plan: &Plan, tally: &mut Tally) -> Result<()> {
    let batch = u64::from(plan.batch);
    let may_wait = usize::try_from(plan.batch.saturating_mul(BATCHES_IN_FLIGHT - 1)).unwrap_or(usize::MAX);
    let patience = plan.end.saturating_duration_since(Instant::now()) + GRACE;
    let mut under_way = VecDeque::new();
    loop {
        under_way.push_back(Instant::now());
        for number in 0..plan.batch {
            insert(writer, &plan.table, plan.payload.step(number)).await?;
        }
        writer.flush_until(may_wait, patience).await?;
        if under_way.len() >= usize::try_from(BATCHES_IN_FLIGHT).unwrap_or(usize::MAX)
            && let Some(begun) = under_way.pop_front()
        {
            tally.batch(batch, batch * u64::from(plan.item_bytes), begun.elapsed());
            plan.live.inserted.fetch_add(batch, Ordering::Relaxed);
        }
    }
}

async fn insert(writer: &mut TrajectoryWriter, table: &str, step: &Nest<Tensor>) -> Result<()> {
    writer.append(step)?;
    let column = writer.history().column_at(0)?.slice(-1..)?;
    writer.create_item(table, 1.0, column).await?;
    Ok(())
}
