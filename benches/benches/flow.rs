//! Measures the overhead of a dataflow, without the functions of its operators. Criterion's elements per second are
//! items per second.

use std::task::Poll;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use relive_flow::{Async, Executor, Flow, Order, ParFlow, Polled, Pull, Ratio, Resubmit, Tagged, Turn};

/// The number of operators of the chain.
const OPERATORS: u64 = 10;

/// The number of items pulled per measurement.
const ITEMS: u64 = 10_000;

/// How many items shards may work ahead.
const AHEAD: Async = Async { depth: 1_000, resubmit: Resubmit::Before };

fn pull<T: 'static>(flow: &mut Flow<T>, items: u64) {
    for _ in 0..items {
        let item = flow.next().and_then(Result::ok).expect("the flow has no end and no errors");
        std::hint::black_box(item);
    }
}

fn numbers(name: &str) -> Flow<u64> {
    Flow::from_iter(name, 0_u64..)
}

fn count(count: &mut u64) -> Option<u64> {
    *count += 1;
    Some(*count)
}

/// Elements are items times operators, so the time per element is the time of one operator.
fn chain(c: &mut Criterion) {
    let mut group = c.benchmark_group("flow");
    group.throughput(Throughput::Elements(ITEMS * OPERATORS));
    let mut flow = (0..OPERATORS).fold(numbers("numbers"), |flow, _| flow.for_each(|n| n.wrapping_mul(3)));
    group.bench_function("ten operators, each", |b| b.iter(|| pull(&mut flow, ITEMS)));
    group.finish();
}

fn joined(c: &mut Criterion) {
    let mut group = c.benchmark_group("flow");
    group.throughput(Throughput::Elements(ITEMS));
    let mut union = Flow::union((0..64).map(|_| numbers("numbers")), Order::Ready);
    group.bench_function("union of 64", |b| b.iter(|| pull(&mut union, ITEMS)));
    let mut ratio = Flow::in_ratio(numbers("inserts"), numbers("samples"), Ratio::exact(4.0, 1));
    group.bench_function("in_ratio", |b| b.iter(|| pull(&mut ratio, ITEMS)));
    let [one, other] = numbers("numbers").duplicate(1);
    let mut copies = Flow::union([one, other], Order::RoundRobin);
    group.bench_function("two copies, joined", |b| b.iter(|| pull(&mut copies, ITEMS)));
    group.finish();
}

fn gathered(c: &mut Criterion) {
    let mut group = c.benchmark_group("gather_async of 2 threads");
    let shards = || ParFlow::from_states(&Executor::Threads, 2, |_| 0, count);
    group.throughput(Throughput::Elements(ITEMS));
    let mut items = shards().gather_async(AHEAD);
    group.bench_function("items", |b| b.iter(|| pull(&mut items, ITEMS)));
    group.throughput(Throughput::Elements(ITEMS * 100));
    let mut fragments = shards().batch(100).gather_async(AHEAD);
    group.bench_function("fragments of 100", |b| b.iter(|| pull(&mut fragments, ITEMS)));
    group.throughput(Throughput::Elements(ITEMS));
    let mut dealt = shards().repartition(2).gather_async(AHEAD);
    group.bench_function("items, dealt out to 2 other threads", |b| b.iter(|| pull(&mut dealt, ITEMS)));
    let mut alone = ParFlow::from_states(&Executor::Serial, 2, |_| 0, count).gather_async(Async::default());
    group.bench_function("items, Serial", |b| b.iter(|| pull(&mut alone, ITEMS)));
    group.finish();
}

/// A flow that is ready only on every n-th pull.
struct Slow {
    every: u64,
    pulls: u64,
}

impl Pull<u64> for Slow {
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<u64> {
        self.pulls += 1;
        if self.pulls.is_multiple_of(self.every) {
            return Poll::Ready(Some(Ok(Tagged { item: self.pulls, source: None })));
        }
        turn.waker().wake_by_ref();
        Poll::Pending
    }
}

/// One of 64 shards is a hundred times slower than the others.
fn skewed(c: &mut Criterion) {
    let mut group = c.benchmark_group("64 of which one is slow");
    group.throughput(Throughput::Elements(ITEMS));
    let flow =
        |number| Flow::from_pull("numbers", Slow { every: if number == 0 { 100 } else { 1 }, pulls: 0 });
    let mut union = Flow::union((0..64).map(flow), Order::Ready);
    group.bench_function("union", |b| b.iter(|| pull(&mut union, ITEMS)));
    let shards = ParFlow::from_flows(&Executor::Serial, 64, |_| (), move |shard| flow(shard.number()));
    let mut serial = shards.gather_async(Async::default());
    group.bench_function("gather_async, Serial", |b| b.iter(|| pull(&mut serial, ITEMS)));
    let shards = ParFlow::from_flows(&Executor::Threads, 64, |_| (), move |shard| flow(shard.number()));
    let mut threads = shards.gather_async(AHEAD);
    group.bench_function("gather_async, 64 threads", |b| b.iter(|| pull(&mut threads, ITEMS)));
    group.finish();
}

criterion_group!(benches, chain, joined, gathered, skewed);
criterion_main!(benches);
