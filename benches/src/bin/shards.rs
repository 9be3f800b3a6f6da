//! Measures inserts into one table by two threads, and samples, for several numbers of shards, in the engine alone.
//!
//! ```text
//! cargo run --release -p relive-benches --bin shards -- 100000
//! ```
//!
//! The argument is the size of the table, which is full, so that each insert evicts an item, mostly one that another
//! thread created. Items are created before the measurement. The settings alternate; for each, the best and the median
//! round are reported, since other work on the machine can only slow a round down. The processor time is the threads'
//! own: if it grows with their number, the threads wait for each other's memory.

#![expect(clippy::print_stdout, reason = "a program that reports")]

use std::hint::black_box;
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use relive_engine::{Engine, SampleRequest, TableHandle};
use relive_table::{NewItem, SelectorKind, TableConfig};
use relive_tensor::{Chunk, Codec, Ledger, SequenceRange, Slice, Tensor, TrajectoryBuilder, encode_chunk};
use rustix::time::{ClockId, clock_gettime};

/// The same allocator as in the servers and the Python module.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The default number of items in the full table.
const ITEMS: u64 = 100_000;

/// The number of items of each thread in a round.
const ROUND: usize = 20_000;

const ROUNDS: usize = 30;
const SAMPLE_ROUNDS: usize = 300;
const BATCH: usize = 256;

/// Returns items of 400 bytes, each with its own chunk, in an episode of this writer.
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

/// A table, and the times of its rounds.
struct Setting {
    threads: u64,
    at_once: usize,
    shards: u32,
    engine: Engine,
    round: u64,
    took: Vec<Duration>,
    /// Processor time for each insert.
    work_ns: Vec<f64>,
}

fn engine(sampler: SelectorKind, size: u64, shards: u32) -> Engine {
    let config = TableConfig::new("t").sampler(sampler).max_size(size).shards(shards);
    Engine::builder().table(config).seed(1).build().expect("the rules are valid")
}

fn table(engine: &Engine) -> TableHandle {
    engine.table("t").expect("it is there").clone()
}

fn processor_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

impl Setting {
    fn new(threads: u64, at_once: usize, size: u64, shards: u32) -> Self {
        let engine = engine(SelectorKind::Uniform, size, shards);
        let mut setting =
            Self { threads, at_once, shards, engine, round: 0, took: Vec::new(), work_ns: Vec::new() };
        for _ in 0..=size / (ROUND as u64 * threads) {
            setting.run();
        }
        setting.took.clear();
        setting.work_ns.clear();
        setting
    }

    fn run(&mut self) {
        self.round += 1;
        let together = Barrier::new(usize::try_from(self.threads).expect("a few"));
        let write = |writer| {
            let table = table(&self.engine);
            let items = items(self.engine.ledger(), writer, self.round);
            together.wait();
            let (began, work) = (Instant::now(), processor_ns());
            insert(&table, items, self.at_once);
            (began.elapsed(), processor_ns() - work)
        };
        let times: Vec<(Duration, f64)> = std::thread::scope(|scope| {
            let running: Vec<_> = (0..self.threads)
                .map(|writer| {
                    scope.spawn({
                        let write = &write;
                        move || write(writer)
                    })
                })
                .collect();
            running.into_iter().map(|thread| thread.join().expect("it inserts and ends")).collect()
        });
        self.took.extend(times.iter().map(|(took, _)| *took).max());
        let items = self.threads as f64 * ROUND as f64;
        self.work_ns.push(times.iter().map(|(_, work)| work).sum::<f64>() / items);
    }

    fn report(&mut self) {
        self.took.sort_unstable();
        self.work_ns.sort_unstable_by(f64::total_cmp);
        let items = self.threads as f64 * ROUND as f64;
        let rate = |took: Option<&Duration>| items / took.map_or(f64::NAN, Duration::as_secs_f64) / 1e6;
        println!(
            "{} threads, {:3} at once, {} shards: {:.2} M/s at best, {:.2} in the middle; {:4.0} ns of a processor each, {:4.0} at best",
            self.threads,
            self.at_once,
            self.shards,
            rate(self.took.first()),
            rate(self.took.get(ROUNDS / 2)),
            self.work_ns.get(ROUNDS / 2).copied().unwrap_or(f64::NAN),
            self.work_ns.first().copied().unwrap_or(f64::NAN),
        );
    }
}

/// Measures the time of a batch.
fn sample(table: &TableHandle) -> Duration {
    let began = Instant::now();
    let request = SampleRequest { limit: BATCH, max_bytes: u64::MAX, timeout: None, who: "bench".into() };
    let mut future = std::pin::pin!(table.sample(request));
    let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    let Poll::Ready(Ok(batch)) = polled else { panic!("nothing holds samples back") };
    assert_eq!(black_box(batch).len(), BATCH);
    began.elapsed()
}

fn main() {
    let size = std::env::args().nth(1).map_or(ITEMS, |size| size.parse().expect("a number of items"));
    let mut settings: Vec<Setting> = Vec::new();
    for (threads, at_once) in [(1, 1), (2, 1), (1, 256), (2, 256)] {
        settings.extend([1, 2, 4].map(|shards| Setting::new(threads, at_once, size, shards)));
    }
    for _ in 0..ROUNDS {
        settings.iter_mut().for_each(Setting::run);
    }
    settings.iter_mut().for_each(Setting::report);
    drop(settings);
    for sampler in [SelectorKind::Uniform, SelectorKind::Prioritized { exponent: 0.6 }] {
        for shards in [1, 2, 4] {
            let engine = engine(sampler, size, shards);
            for writer in 0..=size / ROUND as u64 {
                insert(&table(&engine), items(engine.ledger(), writer, 1), 256);
            }
            let mut took: Vec<Duration> = (0..SAMPLE_ROUNDS).map(|_| sample(&table(&engine))).collect();
            took.sort_unstable();
            let rate =
                |took: Option<&Duration>| BATCH as f64 / took.map_or(f64::NAN, Duration::as_secs_f64) / 1e6;
            println!(
                "batches of {BATCH}, {sampler}, {shards} shards: {:.1} M/s at best, {:.1} in the middle",
                rate(took.first()),
                rate(took.get(SAMPLE_ROUNDS / 2))
            );
        }
    }
}
