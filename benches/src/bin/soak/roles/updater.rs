//! Updates priorities.

use std::sync::Arc;
use std::time::Duration;

use relive_client::Client;

use crate::model::UPDATED;
use crate::world::{TABLE, World};
use relive_benches::Outcome;

use crate::content;

const BATCH: usize = 64;
const PAUSE: Duration = Duration::from_millis(10);

/// Changes the priorities of sampled items.
pub(crate) async fn run(world: Arc<World>, client: Client) -> Outcome {
    loop {
        if let Err(error) = update(&world, &client).await {
            world.failed(&*error);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn update(world: &World, client: &Client) -> Outcome {
    let samples = client.sample(TABLE, BATCH).await?;
    let numbers = samples.iter().map(content::number).collect::<Outcome<Vec<u64>>>()?;
    let updates: Vec<(u64, f64)> = samples.iter().map(|sample| (sample.info().key, UPDATED)).collect();
    let begun = world.model.begin_update(&numbers);
    client.update_priorities(TABLE, &updates).await?;
    world.model.confirm_update(&numbers, begun);
    Ok(())
}
