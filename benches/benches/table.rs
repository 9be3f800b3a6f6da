//! Measures the table alone, with one million items: no locks, no network, no engine.
//!
//! Criterion's elements per second are operations per second of one core. Samples are taken in batches, as an engine
//! takes them.

use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use relive_table::{Freed, NewItem, Sampled, SelectorKind, Table, TableConfig, Timestamp};
use relive_tensor::{
    Chunk, Codec, SequenceRange, Slice, Tensor, Trajectory, TrajectoryBuilder, encode_chunk,
};

const ITEMS: u64 = 1_000_000;

/// The number of operations per batch, which an engine would run under one lock.
const BATCH: usize = 256;

const UNIFORM: SelectorKind = SelectorKind::Uniform;
const PRIORITIZED: SelectorKind = SelectorKind::Prioritized { exponent: 0.6 };
const MAX_HEAP: SelectorKind = SelectorKind::MaxHeap;

/// Returns one column of one slice of one chunk, which all items share.
fn trajectory() -> Trajectory {
    let range = SequenceRange { episode_id: 1, start: 0, end: 0, sparse: false };
    let row = Tensor::from_slice(&[0.5_f32; 100], [1, 100]).expect("100 floats make a row of 100");
    let parts = encode_chunk(1, range, &[row], false, Codec::Raw).expect("a row can be encoded");
    let mut builder = TrajectoryBuilder::new();
    let chunk = builder.chunk(Arc::new(Chunk::new(parts).expect("what was just encoded is valid")));
    builder.begin_column(false);
    builder.slice(Slice { chunk, offset: 0, length: 1, index: 0 });
    builder.build().expect("the chunk has one row")
}

struct Bench {
    table: Table,
    rng: Xoshiro256PlusPlus,
    freed: Freed,
    trajectory: Trajectory,
    next: u64,
}

impl Bench {
    /// Returns a full table with priorities in [0, 1).
    fn full(sampler: SelectorKind) -> Self {
        let config = TableConfig::new("bench").sampler(sampler).max_size(ITEMS);
        let table = Table::new(config, Vec::new()).expect("the configuration is valid");
        let rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut bench = Self { table, rng, freed: Freed::default(), trajectory: trajectory(), next: 0 };
        (0..ITEMS).for_each(|_| bench.insert());
        bench
    }

    fn priority(&mut self) -> f64 {
        f64::from(self.rng.next_u32()) / f64::from(u32::MAX)
    }

    /// Returns a key like those that clients choose: consecutive indices have keys in no particular order.
    fn key(index: u64) -> u64 {
        index.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn insert(&mut self) {
        let (key, priority) = (Self::key(self.next), self.priority());
        self.next += 1;
        let item = NewItem { key, priority, times_sampled: 0, trajectory: self.trajectory.clone() };
        let inserted = self.table.insert(item, Timestamp::EPOCH, &mut self.rng, &mut self.freed);
        inserted.expect("priorities in [0, 1) are valid");
        if self.freed.len() >= BATCH {
            self.freed.clear();
        }
    }

    fn sample(&mut self, out: &mut Vec<Sampled>) {
        out.clear();
        let taken = self.table.sample_many(BATCH, &mut self.rng, out, &mut self.freed);
        assert_eq!(taken, BATCH, "the limiter of the bench never blocks");
    }

    fn update(&mut self) {
        let key = Self::key(self.next - 1 - self.rng.next_u64() % ITEMS);
        let priority = self.priority();
        assert_eq!(self.table.update_priority(key, priority), Ok(true));
    }
}

fn inserts(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("insert with eviction");
    group.throughput(Throughput::Elements(1));
    for sampler in [UNIFORM, PRIORITIZED, MAX_HEAP] {
        let mut bench = Bench::full(sampler);
        group.bench_function(sampler.to_string(), |bencher| bencher.iter(|| bench.insert()));
        group.throughput(Throughput::Elements(64));
        group.bench_function(format!("{sampler}, 64 at once"), |bencher| {
            bencher.iter(|| {
                let keys: Vec<u64> = (bench.next..bench.next + 64).map(Bench::key).collect();
                bench.table.expect_inserts(&keys);
                (0..64).for_each(|_| bench.insert());
            });
        });
        group.throughput(Throughput::Elements(1));
    }
}

fn samples(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("sample");
    group.throughput(Throughput::Elements(BATCH as u64));
    for sampler in [UNIFORM, PRIORITIZED] {
        let mut bench = Bench::full(sampler);
        let mut out = Vec::with_capacity(BATCH);
        group.bench_function(sampler.to_string(), |bencher| bencher.iter(|| bench.sample(&mut out)));
    }
}

fn updates(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("priority update");
    group.throughput(Throughput::Elements(1));
    for sampler in [PRIORITIZED, MAX_HEAP] {
        let mut bench = Bench::full(sampler);
        group.bench_function(sampler.to_string(), |bencher| bencher.iter(|| bench.update()));
    }
}

fn resets(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("reset");
    group.sample_size(10);
    group.bench_function("1 M items", |bencher| {
        let reset = |mut bench: Bench| {
            bench.table.reset(&mut bench.freed);
            bench
        };
        bencher.iter_batched(|| Bench::full(UNIFORM), reset, BatchSize::PerIteration);
    });
}

criterion_group!(table, inserts, samples, updates, resets);
criterion_main!(table);
