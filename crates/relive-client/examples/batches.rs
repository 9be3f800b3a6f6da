//! Measures how many items per second are read as batches, gathered into one array per column.
//!
//! ```console
//! $ cargo run --release -p relive-client --example batches -- local 400 256 3
//! $ cargo run --release -p relive-client --example batches -- localhost:8000 400 256 3 uniform
//! ```
//!
//! Arguments: `local` (a table in this process) or an address; bytes per item; items per batch; seconds; and for a
//! server, the table, which must already hold items of that size, and the transport (`auto`, `tcp`, `unix`, `shm`).
//! Each item is one step of a single `f32` column with random values. The local table holds 100,000 items, or as many
//! as fit in 400 MB.

use std::sync::Arc;
use std::time::{Duration, Instant};

use relive_client::{BatchOptions, BatchSampler, Client, ClientOptions, Error, Tensor, TransportChoice};
use relive_engine::Engine;
use relive_table::{NewItem, TableConfig};
use relive_tensor::{Chunk, Codec, SequenceRange, Slice, TrajectoryBuilder, encode_chunk};

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [place, bytes, batch, seconds, rest @ ..] = args.as_slice() else {
        return Err("usage: batches local|ADDRESS BYTES BATCH SECONDS [TABLE]".into());
    };
    let (bytes, batch): (usize, usize) = (bytes.parse()?, batch.parse()?);
    let until = Duration::from_secs_f64(seconds.parse()?);
    let table = rest.first().map_or("table", String::as_str);
    let client = match place.as_str() {
        "local" => {
            let engine = Engine::builder().table(TableConfig::new(table).max_size(10_000_000)).build()?;
            fill(&engine, table, bytes, 100_000.min(400_000_000 / bytes))?;
            Client::in_process(engine)
        }
        address => {
            let choice = match rest.get(1).map_or("auto", String::as_str) {
                "tcp" => TransportChoice::Tcp,
                "unix" => TransportChoice::Unix,
                "shm" => TransportChoice::SharedMemory,
                _ => TransportChoice::Auto,
            };
            Client::connect_with(address, ClientOptions::default().transport(choice))?
        }
    };
    let batches = client.batches(table, BatchOptions::new(batch))?;
    let (started, items) = read(batches, until).await?;
    report(&format!("{place} ({})", client.transport()), bytes, items, started.elapsed());
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the result is the purpose of the program")]
#[expect(clippy::cast_precision_loss, reason = "rates are rounded anyway")]
fn report(place: &str, bytes: usize, items: usize, took: Duration) {
    let rate = items as f64 / took.as_secs_f64();
    println!("{place}, {bytes} B: {rate:.0} items/s, {:.3} GB/s", rate * bytes as f64 / 1e9);
}

async fn read(mut batches: BatchSampler, until: Duration) -> Result<(Instant, usize), Error> {
    let mut out = Vec::new();
    let (started, mut items) = (Instant::now(), 0);
    while started.elapsed() < until {
        let Some(batch) = batches.next().await.transpose()? else { break };
        if batch.column_memory(0).is_none() {
            let bytes = batch.columns()?.first().and_then(|column| column.size_bytes(batch.len()));
            out.resize(bytes.unwrap_or(0), 0);
            batch.gather_into(0, &mut out)?;
        }
        items += batch.len();
    }
    Ok((started, items))
}

/// Inserts items directly into the table.
fn fill(engine: &Engine, table: &str, bytes: usize, items: usize) -> Result<(), Box<dyn std::error::Error>> {
    let (who, confirmations) = (Arc::from("example"), Arc::default());
    for seed in 0..items {
        let range = SequenceRange { episode_id: 1, start: 0, end: 0, sparse: false };
        let rows = random(bytes, seed).unsqueeze()?;
        let chunk = Chunk::new(encode_chunk(seed as u64, range, &[rows], false, Codec::Snappy)?)?;
        let mut trajectory = TrajectoryBuilder::new();
        let chunk = trajectory.chunk(Arc::new(chunk));
        trajectory.slice(Slice { chunk, offset: 0, length: 1, index: 0 });
        let item =
            NewItem { key: seed as u64, priority: 1.0, times_sampled: 0, trajectory: trajectory.build()? };
        let _ = engine.table(table)?.insert([item], &who, &confirmations, &mut Vec::new())?;
    }
    Ok(())
}

/// Random values, which are not compressible.
fn random(bytes: usize, seed: usize) -> Tensor {
    let mut state = seed as u64 + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f32::from_bits(u32::try_from(state >> 41).unwrap_or(0) | 0x3f80_0000)
    };
    let values: Vec<f32> = (0..bytes / 4).map(|_| next()).collect();
    let len = u32::try_from(values.len()).expect("a benchmark's item is small");
    Tensor::from_slice(&values, [len]).expect("as many values as the shape says")
}
