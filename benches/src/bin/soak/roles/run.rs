//! Runs all roles at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use relive_client::TransportChoice;
use tokio::task::JoinSet;

use super::{checker, checkpointer, killer, reader, stranger, updater, watcher, writer};
use crate::arguments::Arguments;
use crate::world::World;
use relive_benches::Outcome;

/// Runs the roles for the requested time, then lists the whole table one more time.
pub(crate) async fn run(world: &Arc<World>, arguments: &Arguments) -> Outcome {
    let started = Instant::now();
    let mut seeds = 0..;
    let mut rng = || Xoshiro256PlusPlus::seed_from_u64(arguments.seed * 1000 + seeds.next().unwrap_or(0));
    let mut roles = JoinSet::new();
    let direct = |way| world.client(way);
    let writers = [
        direct(TransportChoice::Tcp)?,
        direct(TransportChoice::Unix)?,
        direct(TransportChoice::SharedMemory)?,
        world.rough_client()?,
    ];
    for client in writers {
        roles.spawn(writer::run(Arc::clone(world), client, rng()));
    }
    for client in [direct(TransportChoice::Tcp)?, world.rough_client()?] {
        roles.spawn(reader::calls(Arc::clone(world), client));
    }
    let streams =
        [direct(TransportChoice::SharedMemory)?, direct(TransportChoice::Unix)?, world.rough_client()?];
    for client in streams {
        roles.spawn(reader::stream(Arc::clone(world), client));
    }
    roles.spawn(reader::stream(Arc::clone(world), world.slow_client()?));
    roles.spawn(updater::run(Arc::clone(world), direct(TransportChoice::Auto)?));
    roles.spawn(checker::run(Arc::clone(world), direct(TransportChoice::Auto)?));
    roles.spawn(checkpointer::run(Arc::clone(world), direct(TransportChoice::Auto)?));
    roles.spawn(stranger::run(Arc::clone(world), rng()));
    roles.spawn(killer::cut(Arc::clone(world), rng()));
    roles.spawn(killer::fault(Arc::clone(world), rng()));
    roles.spawn(killer::kill(Arc::clone(world), rng(), started + arguments.rough_part()));
    roles.spawn(watcher::memory(Arc::clone(world), started + arguments.rough_part()));
    roles.spawn(watcher::progress(Arc::clone(world), started, arguments.duration()));
    let mut over = std::pin::pin!(tokio::time::sleep_until((started + arguments.duration()).into()));
    loop {
        tokio::select! {
            () = over.as_mut() => break,
            ended = roles.join_next() => ended.unwrap_or(Ok(Ok(())))??,
        }
    }
    roles.shutdown().await;
    let client = direct(TransportChoice::Auto)?;
    tokio::time::timeout(Duration::from_secs(120), checker::look(world, &client)).await??;
    Ok(())
}
