//! What a dataflow costs beside the functions of its operators. Criterion's elements per second are items per second.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use relive_flow::{Async, Executor, Flow, Order, ParFlow, Ratio, Resubmit};

/// Operators of the chain.
const OPERATORS: u64 = 10;

/// Items that a pulled flow gives before the next measurement.
const ITEMS: u64 = 10_000;

/// Items that shards work ahead.
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

/// Elements are items times operators: the time of one is that of an operator.
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
    let mut alone = ParFlow::from_states(&Executor::Serial, 2, |_| 0, count).gather_async(Async::default());
    group.bench_function("items, Serial", |b| b.iter(|| pull(&mut alone, ITEMS)));
    group.finish();
}

criterion_group!(benches, chain, joined, gathered);
criterion_main!(benches);
