//! Kills of the server, and of connections to it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;

use crate::Outcome;
use crate::world::World;

/// Kills the server again and again until then, each time after 5 to 20 s.
pub(crate) async fn kill(world: Arc<World>, mut rng: Xoshiro256PlusPlus, until: Instant) -> Outcome {
    loop {
        let pause = Duration::from_millis(5_000 + rng.next_u64() % 15_000);
        if Instant::now() + pause > until {
            return Ok(());
        }
        tokio::time::sleep(pause).await;
        if let Some(fault) = world.server.has_ended() {
            world.model.fault(fault);
        }
        world.model.killed();
        world.server.kill();
        world.counts.kills.fetch_add(1, Ordering::Relaxed);
        world.server.start_again().await?;
    }
}

/// Cuts the connections through the rough proxy every 0.1 to 2 s.
pub(crate) async fn cut(world: Arc<World>, mut rng: Xoshiro256PlusPlus) -> Outcome {
    loop {
        tokio::time::sleep(Duration::from_millis(100 + rng.next_u64() % 1_900)).await;
        world.rough.cut();
        world.counts.cuts.fetch_add(1, Ordering::Relaxed);
    }
}
