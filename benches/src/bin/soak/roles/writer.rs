//! Writes items.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;
use relive_client::{Client, TrajectoryWriter, TrajectoryWriterOptions};

use super::checker::CAPACITY;
use crate::model::WRITTEN;
use crate::world::{PATIENCE, TABLE, World};
use relive_benches::Outcome;

use crate::content;

/// Writes one group of items after the other; each is confirmed before the next begins.
pub(crate) async fn run(world: Arc<World>, client: Client, mut rng: Xoshiro256PlusPlus) -> Outcome {
    // Consecutive items share chunks.
    let options = || TrajectoryWriterOptions::new(content::MAX_STEPS).chunk_length(4);
    let mut writer = None;
    loop {
        while world.model.len() > 2 * CAPACITY {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let (numbers, begun) = world.model.begin_write(1 + rng.next_u64() % 64);
        let started = Instant::now();
        let mut current = match writer.take() {
            Some(writer) => writer,
            None => client.trajectory_writer(options())?,
        };
        match write(&mut current, numbers.clone()).await {
            Ok(()) => {
                world.model.confirm(numbers, begun);
                if world.model.same_life(begun) {
                    world.inserts.record(started);
                }
                writer = Some(current);
            }
            Err(error) => {
                world.model.abandon(numbers);
                world.failed(&*error);
            }
        }
    }
}

async fn write(writer: &mut TrajectoryWriter, numbers: std::ops::Range<u64>) -> Outcome {
    for number in numbers {
        let steps = content::steps(number)?;
        for step in &steps {
            writer.append(step)?;
        }
        let column = writer.history().column_at(0)?.slice(-i64::try_from(steps.len())?..)?;
        writer.create_item(TABLE, WRITTEN, [column]).await?;
    }
    writer.flush(PATIENCE).await?;
    Ok(())
}
