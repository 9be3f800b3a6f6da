//! Makes the server write checkpoints.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use relive_client::Client;

use crate::world::World;
use relive_benches::Outcome;

const PAUSE: Duration = Duration::from_secs(3);

pub(crate) async fn run(world: Arc<World>, client: Client) -> Outcome {
    loop {
        let begun = world.model.now();
        match client.checkpoint().await {
            Ok(_) => {
                world.model.checkpointed(begun);
                world.counts.checkpoints.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => world.failed(&error),
        }
        tokio::time::sleep(PAUSE).await;
    }
}
