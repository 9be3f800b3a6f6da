//! The table.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use relive_checkpoint::Tier;
use relive_client::{BatchOptions, Client, Nest, Tensor};
use relive_engine::Engine;
use relive_table::TableConfig;
use tokio::runtime::Runtime;

use relive_benches::Outcome;

/// The number of bytes in an item.
pub(crate) const ITEM_BYTES: usize = 40_000;

const BATCH: usize = 256;

/// A table that has been filled.
pub(crate) struct Filled {
    client: Client,
    runtime: Runtime,
    /// Bytes per second at which it was filled.
    pub(crate) rate: f64,
}

impl Filled {
    pub(crate) fn new(folder: &Path, bytes: u64, budget: u64) -> Outcome<Self> {
        let items = bytes / ITEM_BYTES as u64;
        let table = TableConfig::new("t").max_size(items);
        let tier = Arc::new(Tier::open(folder)?);
        let client =
            Client::in_process(Engine::builder().table(table).max_bytes(budget).cold_store(tier).build()?);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut row = vec![0; ITEM_BYTES];
        let begun = Instant::now();
        for _ in 0..items {
            rng.fill_bytes(&mut row);
            let step = Nest::Leaf(Tensor::from_slice(&row, [u32::try_from(ITEM_BYTES)?])?);
            runtime.block_on(client.with_timeout(Duration::from_secs(60)).insert(&step, &[("t", 1.0)]))?;
        }
        let rate = bytes as f64 / begun.elapsed().as_secs_f64();
        Ok(Self { client, runtime, rate })
    }

    /// Returns the bytes per second of batches.
    pub(crate) fn sample(&self, time: Duration) -> Outcome<f64> {
        let mut out = vec![0; BATCH * ITEM_BYTES];
        let mut batches =
            self.runtime.block_on(async { self.client.batches("t", BatchOptions::new(BATCH)) })?;
        let (mut count, begun) = (0_u64, Instant::now());
        while begun.elapsed() < time {
            let batch = self.runtime.block_on(batches.next()).ok_or("batches do not end")??;
            batch.gather_into(0, &mut out)?;
            count += 1;
        }
        Ok(count as f64 * out.len() as f64 / begun.elapsed().as_secs_f64())
    }
}
