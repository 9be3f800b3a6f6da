//! Measures the cost of creating items in a writer. For tables in the same process, this includes the insert; for a
//! server, it ends at the send queue.

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use relive_client::{Client, Nest, Tensor, TrajectoryWriter, TrajectoryWriterOptions, Windows};
use relive_engine::Engine;
use relive_table::TableConfig;

/// The number of values of a step: 400 bytes.
const WIDTH: u32 = 100;
const STEPS: u32 = 100;

/// Returns random values, which are incompressible.
fn random(shape: &[u32], seed: u64) -> Tensor {
    let mut state = seed + 1;
    let count: u32 = shape.iter().product();
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from(state >> 32).unwrap_or(0)
    };
    let values: Vec<u32> = (0..count).map(|_| next()).collect();
    Tensor::from_slice(&values, shape).expect("as many values as the shape says")
}

fn local() -> Client {
    let table = TableConfig::new("t").max_size(10_000);
    Client::in_process(Engine::builder().table(table).build().expect("the table can be"))
}

/// Returns a client for a server that does not exist, so that items stay queued.
fn nowhere() -> Client {
    Client::connect("localhost:1").expect("the address can be one")
}

fn writer(client: &Client, options: TrajectoryWriterOptions) -> TrajectoryWriter {
    let options = options.validate_items(false).max_pending_items(usize::MAX).max_pending_bytes(usize::MAX);
    client.trajectory_writer(options).expect("the options go together")
}

/// Appends each of `steps`, and creates an item for it.
fn one_by_one(writer: &mut TrajectoryWriter, steps: &[Nest<Tensor>]) {
    for step in steps {
        writer.append(step).expect("all steps look alike");
        let newest = writer.history().column_at(0).and_then(|column| column.step(-1)).expect("it is there");
        writer.try_create_item("t", 1.0, &newest.into()).expect("it can be made").expect("there is room");
    }
}

fn many(writer: &mut TrajectoryWriter, sequence: &Nest<Tensor>, priorities: &[f64], windows: Windows<'_>) {
    writer.append_sequence(sequence).expect("all steps look alike");
    writer
        .try_create_window_items("t", priorities, windows)
        .expect("they can be made")
        .expect("there is room");
}

fn items(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("threads");
    let steps: Vec<Nest<Tensor>> =
        (0..u64::from(STEPS)).map(|seed| Nest::List(vec![Nest::Leaf(random(&[WIDTH], seed))])).collect();
    let sequence = Nest::List(vec![Nest::Leaf(random(&[STEPS, WIDTH], 0))]);
    let priorities = vec![1.0; steps.len()];
    let positions: Vec<i64> = (-i64::from(STEPS)..0).collect();
    let windows = Windows::steps(&positions);
    let mut group = c.benchmark_group("items");
    group.throughput(Throughput::Elements(u64::from(STEPS)));
    for (place, client) in [("in process", local()), ("queued", runtime.block_on(async { nowhere() }))] {
        for length in [1, 10, 100] {
            let options = TrajectoryWriterOptions::new(STEPS).chunk_length(length);
            let name =
                |what: &str| BenchmarkId::new(format!("{what}, {place}"), format!("chunks of {length}"));
            let fresh = || {
                // Lets the tasks of dropped writers end, so that their queued items are freed.
                runtime.block_on(async {
                    tokio::task::yield_now().await;
                    writer(&client, options)
                })
            };
            group.bench_function(name("one by one"), |b| {
                b.iter_batched_ref(fresh, |writer| one_by_one(writer, &steps), BatchSize::SmallInput);
            });
            group.bench_function(name("sequence and windows"), |b| {
                let run = |writer: &mut TrajectoryWriter| many(writer, &sequence, &priorities, windows);
                b.iter_batched_ref(fresh, run, BatchSize::SmallInput);
            });
        }
    }
    group.finish();
}

criterion_group!(benches, items);
criterion_main!(benches);
