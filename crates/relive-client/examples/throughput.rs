//! Measures how many items per second a client writes to, or reads from, a server that is already running.
//!
//! ```console
//! $ cargo run --release -p relive-client --example throughput -- localhost:8000 insert 400 5 uniform tcp
//! ```
//!
//! Arguments: address; `insert`, `insert-many` (a thousand steps and items per call, 64 steps per chunk) or `sample`;
//! bytes per item; seconds; table; the transport (`auto`, `tcp`, `unix`, `shm`); and for `sample`, the number of
//! samples in flight. Each item is one step of a single `f32` column with random values. Inserts are counted when they
//! are confirmed, and samples when they are decoded.

use std::time::{Duration, Instant};

use relive_client::{
    Client, ClientOptions, Error, Nest, SamplerOptions, Tensor, TrajectoryWriterOptions, TransportChoice,
    Windows,
};

/// Uses mimalloc, because steps are not freed on the thread that allocated them.
#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

const LIMIT: Duration = Duration::from_secs(60);

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [address, operation, bytes, seconds, table, rest @ ..] = args.as_slice() else {
        let usage =
            "usage: throughput ADDRESS insert|insert-many|sample BYTES SECONDS TABLE [WAY] [IN_FLIGHT]";
        return Err(usage.into());
    };
    let options = ClientOptions::default().transport(way(rest.first().map(String::as_str)));
    let client = Client::connect_with(address, options)?;
    let (bytes, seconds): (usize, f64) = (bytes.parse()?, seconds.parse()?);
    let until = Duration::from_secs_f64(seconds);
    let in_flight = rest.get(1).map_or(Ok(1000), |text| text.parse())?;
    let (started, items) = match operation.as_str() {
        "insert" => insert(client, table, bytes, until).await?,
        "insert-many" => insert_many(client, table, bytes, until).await?,
        "sample" => sample(client, table, in_flight, until).await?,
        other => return Err(format!("unknown operation {other:?}").into()),
    };
    report(operation, items, bytes, started.elapsed());
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the result is the purpose of the program")]
#[expect(clippy::cast_precision_loss, reason = "rates are rounded anyway")]
fn report(operation: &str, items: usize, bytes: usize, took: Duration) {
    let rate = items as f64 / took.as_secs_f64();
    println!("{operation} {bytes} B: {rate:.0} items/s, {:.3} GB/s", rate * bytes as f64 / 1e9);
}

async fn insert(
    client: Client,
    table: &str,
    bytes: usize,
    until: Duration,
) -> Result<(Instant, usize), Error> {
    let steps: Vec<Nest<Tensor>> =
        (0..16).map(|seed| Nest::List(vec![Nest::Leaf(random(bytes, seed))])).collect();
    let mut writer = client.trajectory_writer(TrajectoryWriterOptions::new(1))?;
    let (started, mut items) = (Instant::now(), 0);
    while started.elapsed() < until {
        for _ in 0..64 {
            writer.append(&steps[items % steps.len()])?;
            let column = writer.history().column_at(0)?.slice(-1..)?;
            writer.create_item(table, 1.0, column).await?;
            items += 1;
        }
    }
    writer.flush(LIMIT).await?;
    writer.close().await?;
    Ok((started, items))
}

async fn insert_many(
    client: Client,
    table: &str,
    bytes: usize,
    until: Duration,
) -> Result<(Instant, usize), Error> {
    let many = u32::try_from((400_000 / bytes).max(1)).unwrap_or(1);
    let width = u32::try_from(bytes / 4).expect("a benchmark's item is small");
    let rows = random(bytes * many as usize, 1);
    let data = rows.bytes().cloned().unwrap_or_default();
    let rows = Tensor::new(rows.dtype(), [many, width], data);
    let steps = Nest::List(vec![Nest::Leaf(rows.expect("as many rows as the shape says"))]);
    let mut writer =
        client.trajectory_writer(TrajectoryWriterOptions::new(many).chunk_length(many.min(64)))?;
    let newest_last: Vec<i64> = (1..=i64::from(many)).rev().map(|age| -age).collect();
    let priorities = vec![1.0; many as usize];
    let (started, mut items) = (Instant::now(), 0);
    while started.elapsed() < until {
        writer.append_sequence(&steps)?;
        writer.create_window_items(table, &priorities, Windows::steps(&newest_last)).await?;
        items += many as usize;
    }
    writer.flush(LIMIT).await?;
    writer.close().await?;
    Ok((started, items))
}

fn way(name: Option<&str>) -> TransportChoice {
    match name {
        Some("tcp") => TransportChoice::Tcp,
        Some("unix") => TransportChoice::Unix,
        Some("shm") => TransportChoice::SharedMemory,
        _ => TransportChoice::Auto,
    }
}

async fn sample(
    client: Client,
    table: &str,
    in_flight: usize,
    until: Duration,
) -> Result<(Instant, usize), Error> {
    let options = SamplerOptions::default()
        .max_in_flight_samples_per_worker(in_flight)
        .max_samples_per_stream(usize::MAX)
        .rate_limiter_timeout(LIMIT);
    let mut sampler = client.sampler(table, options)?;
    let (started, mut samples) = (Instant::now(), 0);
    while started.elapsed() < until {
        for sample in sampler.next_batch(64).await? {
            sample.columns()?;
            samples += 1;
        }
    }
    Ok((started, samples))
}

/// Random values, which are not compressible.
fn random(bytes: usize, seed: u64) -> Tensor {
    let mut state = seed + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let upper = u16::try_from(state >> 48).unwrap_or(0);
        f32::from(upper) / 65536.0
            + f32::from(u16::try_from((state >> 32) & 0xffff).unwrap_or(0)) / 65536.0 / 65536.0
    };
    let values: Vec<f32> = (0..bytes / 4).map(|_| next()).collect();
    let len = u32::try_from(values.len()).expect("a benchmark's item is small");
    Tensor::from_slice(&values, [len]).expect("as many values as the shape says")
}
