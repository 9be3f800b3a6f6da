//! Incompressible items, and engines filled with them.

use std::sync::Arc;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use relive_checkpoint::Store;
use relive_engine::{Confirmations, Engine, EngineBuilder, EngineError};
use relive_table::{NewItem, TableConfig};
use relive_tensor::{Chunk, Codec, SequenceRange, Slice, Tensor, TrajectoryBuilder, encode_chunk};

use relive_benches::Outcome;

/// The number of bytes in an item's one tensor.
pub(crate) const ITEM_BYTES: u32 = 4_000;

/// The one table.
pub(crate) const TABLE: &str = "t";

/// The number of items inserted by one call.
const PER_INSERT: u64 = 1_000;

/// An endless stream of items, each with one step in its own chunk.
pub(crate) struct Items {
    random: Xoshiro256PlusPlus,
    /// Memory for the bytes of the next item.
    bytes: Vec<u8>,
}

impl Items {
    pub(crate) fn new(seed: u64) -> Self {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        Self { random, bytes: vec![0; ITEM_BYTES as usize] }
    }

    /// Returns the tensor of one step.
    pub(crate) fn tensor(&mut self, shape: &[u32]) -> Outcome<Tensor> {
        self.random.fill_bytes(&mut self.bytes);
        Ok(Tensor::from_slice(&self.bytes, shape)?)
    }

    pub(crate) fn item(&mut self) -> Outcome<NewItem> {
        let (key, episode_id) = (self.random.next_u64(), self.random.next_u64());
        let range = SequenceRange { episode_id, start: 0, end: 0, sparse: false };
        let row = self.tensor(&[1, ITEM_BYTES])?;
        let chunk = Chunk::new(encode_chunk(self.random.next_u64(), range, &[row], false, Codec::Snappy)?)?;
        let mut builder = TrajectoryBuilder::new();
        let chunk = builder.chunk(Arc::new(chunk));
        builder.begin_column(true);
        builder.slice(Slice { chunk, offset: 0, length: 1, index: 0 });
        Ok(NewItem { key, priority: 1.0, times_sampled: 0, trajectory: builder.build()? })
    }

    /// Inserts the given number of items.
    pub(crate) fn insert(&mut self, engine: &Engine, count: u64) -> Outcome {
        let (who, confirmations) = ("bench".into(), Arc::new(Confirmations::default()));
        let table = engine.table(TABLE)?;
        let mut left = count;
        while left > 0 {
            let some = left.min(PER_INSERT);
            // Chunks are counted in the engine's ledger, like chunks from clients.
            let items: Vec<NewItem> = (0..some).map(|_| self.item()).collect::<Outcome<_>>()?;
            let _accepted = table.insert(items, &who, &confirmations, &mut Vec::new())?;
            left -= some;
        }
        Ok(())
    }
}

/// Returns an engine with a table of at most `items` items, in which new items evict the oldest.
pub(crate) fn rules(items: u64) -> EngineBuilder {
    Engine::builder().table(TableConfig::new(TABLE).max_size(items))
}

/// Returns an engine that is filled with `items` items.
pub(crate) fn full(builder: EngineBuilder, items: u64) -> Outcome<Engine> {
    let engine = builder.build()?;
    let mut source = Items::new(items);
    for tenth in 1..=10 {
        source.insert(&engine, items * tenth / 10 - items * (tenth - 1) / 10)?;
        eprint!("\rfilling a table with {items} items: {} %", tenth * 10);
    }
    eprintln!();
    Ok(engine)
}

/// Returns a builder whose checkpoints go to `store`.
pub(crate) fn saving_to(builder: EngineBuilder, store: Arc<Store>) -> EngineBuilder {
    builder.checkpointer(move |snapshot, progress| {
        store.save(snapshot, progress).map_err(EngineError::checkpoint)
    })
}
