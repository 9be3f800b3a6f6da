//! Inserts on several threads into one table, by its number of shards, and samples of it.
//!
//! Items are made before the clock runs: what is measured is the engine alone. The table is full, so that each insert evicts.
//! Elements per second are those of all threads together.

use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use relive_engine::{Engine, SampleRequest, TableHandle};
use relive_table::{NewItem, SelectorKind, TableConfig};
use relive_tensor::{Chunk, Codec, Ledger, SequenceRange, Slice, Tensor, TrajectoryBuilder, encode_chunk};

/// As the servers and the Python module have it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ITEMS: u64 = 100_000;

/// Items of each thread in a round: an actor brings hundreds at once, or one.
const ROUND: usize = 20_000;

/// Items of 400 bytes, each with a chunk of its own, in an episode of this writer's.
fn items(ledger: &Arc<Ledger>, writer: u64, round: u64) -> Vec<NewItem> {
    let row = Tensor::from_slice(&[0.5_f32; 100], [1, 100]).expect("100 floats make a row of 100");
    let range = SequenceRange { episode_id: writer, start: 0, end: 0, sparse: false };
    let first = (round * 64 + writer) * ROUND as u64;
    let item = |number: u64| {
        let key = (first + number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let parts = encode_chunk(key, range, std::slice::from_ref(&row), false, Codec::Raw);
        let chunk = Chunk::new(parts.expect("a row can be encoded")).expect("what was encoded is valid");
        let mut builder = TrajectoryBuilder::new();
        builder.begin_column(false);
        let chunk = builder.chunk(Arc::new(chunk.with_ledger(Arc::clone(ledger))));
        builder.slice(Slice { chunk, offset: 0, length: 1, index: 0 });
        let trajectory = builder.build().expect("the chunk has one row");
        NewItem { key, priority: 1.0, times_sampled: 0, trajectory }
    };
    (0..ROUND as u64).map(item).collect()
}

fn insert(table: &TableHandle, items: Vec<NewItem>, at_once: usize) {
    let (who, confirmations, mut confirmed) = ("bench".into(), Arc::default(), Vec::new());
    let mut items = items.into_iter();
    while items.len() > 0 {
        confirmed.clear();
        let brought = items.by_ref().take(at_once);
        let accepted = table.insert(brought, &who, &confirmations, &mut confirmed);
        assert_eq!(accepted.expect("the table is open").deferred, 0);
    }
}

struct Bench {
    engine: Engine,
    round: u64,
}

impl Bench {
    fn full(sampler: SelectorKind, shards: u32) -> Self {
        let config = TableConfig::new("t").sampler(sampler).max_size(ITEMS).shards(shards);
        let engine = Engine::builder().table(config).seed(1).build().expect("the rules are valid");
        let mut bench = Self { engine, round: 0 };
        for _ in 0..ITEMS / ROUND as u64 {
            bench.insert(1, 256);
        }
        bench
    }

    fn table(&self) -> TableHandle {
        self.engine.table("t").expect("it is there").clone()
    }

    /// The time for a round of so many threads.
    fn insert(&mut self, threads: u64, at_once: usize) -> Duration {
        self.round += 1;
        let together = Arc::new(Barrier::new(usize::try_from(threads).expect("a few")));
        let running: Vec<_> = (0..threads)
            .map(|writer| {
                let (table, together) = (self.table(), Arc::clone(&together));
                let items = items(self.engine.ledger(), writer, self.round);
                std::thread::spawn(move || {
                    together.wait();
                    let began = Instant::now();
                    insert(&table, items, at_once);
                    began.elapsed()
                })
            })
            .collect();
        let took = running.into_iter().map(|thread| thread.join().expect("it inserts and ends"));
        took.max().unwrap_or_default()
    }
}

fn inserts(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("insert on threads");
    group.sample_size(20);
    for (threads, at_once) in [(1, 1), (2, 1), (1, 256), (2, 256)] {
        group.throughput(Throughput::Elements(threads * ROUND as u64));
        for shards in [1, 2, 4] {
            let mut bench = Bench::full(SelectorKind::Uniform, shards);
            let id = BenchmarkId::new(format!("{threads} threads, {at_once} at once"), shards);
            group.bench_function(id, |bencher| {
                bencher.iter_custom(|rounds| (0..rounds).map(|_| bench.insert(threads, at_once)).sum());
            });
        }
    }
}

fn samples(criterion: &mut Criterion) {
    const BATCH: usize = 256;
    let mut group = criterion.benchmark_group("sample 256");
    group.throughput(Throughput::Elements(BATCH as u64));
    for sampler in [SelectorKind::Uniform, SelectorKind::Prioritized { exponent: 0.6 }] {
        for shards in [1, 2, 4] {
            let table = Bench::full(sampler, shards).table();
            group.bench_function(BenchmarkId::new(sampler.to_string(), shards), |bencher| {
                bencher.iter(|| {
                    let request =
                        SampleRequest { limit: BATCH, max_bytes: u64::MAX, timeout: None, who: "b".into() };
                    let mut future = std::pin::pin!(table.sample(request));
                    let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                    let Poll::Ready(Ok(batch)) = polled else { panic!("nothing holds samples back") };
                    assert_eq!(batch.len(), BATCH);
                });
            });
        }
    }
}

criterion_group!(shards, inserts, samples);
criterion_main!(shards);
