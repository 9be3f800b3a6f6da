//! Kills the server, cuts connections to it, and disturbs its network.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;

use crate::namespace::LinkFault;
use crate::world::World;
use relive_benches::Outcome;

/// Kills the server repeatedly until `until`, at intervals of 5 to 20 s.
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

/// Disturbs the cable to the server, if it has one, every 3 to 10 s, for 0.2 to 4 s, and occasionally for longer than
/// connections wait for an answer.
pub(crate) async fn fault(world: Arc<World>, mut rng: Xoshiro256PlusPlus) -> Outcome {
    let Some(namespace) = &world.server.namespace else { return std::future::pending().await };
    loop {
        tokio::time::sleep(Duration::from_millis(3_000 + rng.next_u64() % 7_000)).await;
        let fault = match rng.next_u64() % 3 {
            0 => LinkFault::Cut,
            1 => LinkFault::Narrow,
            _ => LinkFault::Lossy,
        };
        if !namespace.fault(fault)? {
            continue;
        }
        world.counts.troubles.fetch_add(1, Ordering::Relaxed);
        let long = if rng.next_u64().is_multiple_of(20) { 25_000 } else { 0 };
        tokio::time::sleep(Duration::from_millis(200 + rng.next_u64() % 3_800 + long)).await;
        namespace.repair(fault)?;
    }
}
