//! Compares collection with a plain copy of the same number of bytes, and checkpoints with a plain copy of a file.
//!
//! `cargo run -p relive-gpu --example measure -- collect`, `-- checkpoint <folder> <GiB>`, `-- insert`.
#![expect(clippy::print_stdout, clippy::cast_precision_loss, reason = "a program that prints measurements")]

use std::fs::File;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use relive_gpu::{CollectOptions, Collector, Column, Result, Schema, Store, StoreOptions, Window};
use relive_tensor::DType;

const BATCH: usize = 512;
const STEPS: u64 = 20;
/// The number of measurements per case; the median is reported.
const ROUNDS: usize = 200;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["checkpoint", folder, gib] => checkpoint(Path::new(folder), gib.parse().unwrap_or(2)),
        ["insert"] => insert(),
        _ => collect(),
    }
}

/// A generator of the same pseudorandom numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Returns the columns of a MuJoCo task.
fn vectors() -> Vec<Column> {
    vec![
        Column::new("observation", DType::Float32, &[17]),
        Column::new("action", DType::Float32, &[6]),
        Column::new("reward", DType::Float32, &[]),
        Column::new("discount", DType::Float32, &[]),
        Column::new("next_observation", DType::Float32, &[17]),
    ]
}

fn filled(columns: Vec<Column>, max_steps: u64, capacity: u64) -> Result<Store> {
    let schema = Schema::new(max_steps, columns)?;
    let options = StoreOptions::new(capacity);
    let private = std::env::var_os("PRIVATE").is_some();
    let store =
        if private { Store::create_private(schema, options)? } else { Store::create(schema, options)? };
    for number in 0..capacity {
        let mut writing = store.begin()?;
        for column in 0..store.schema().columns().len() {
            writing.column(column)?.fill(number.to_le_bytes()[0]);
        }
        writing.commit(max_steps, 1.0)?;
    }
    Ok(store)
}

fn collect() -> Result<()> {
    println!("batches of {BATCH} windows of {STEPS} steps, median of {ROUNDS}; GB/s of the batch's bytes");
    let store = filled(vectors(), 1000, 8192)?;
    windows("5 columns of vectors, 1.4 GB", &store)?;
    let store = filled(vectors(), 1000, 256)?;
    windows("the same, 44 MB", &store)?;
    let image = vec![Column::new("image", DType::UInt8, &[84, 84])];
    let store = filled(image, 100, 2048)?;
    windows("images of 84 x 84, 1.4 GB", &store)
}

fn windows(what: &str, store: &Store) -> Result<()> {
    let columns = store.schema().columns();
    let windows: Vec<Window> = columns.iter().map(|column| Window::new(&column.name, -9, STEPS)).collect();
    for threads in [1, 2] {
        let options = CollectOptions {
            threads,
            sorted: std::env::var_os("SORTED").is_some(),
            ..CollectOptions::new(BATCH as u64)
        };
        let collector = Collector::new(store.reader(), &windows, options)?;
        let bytes = BATCH as u64 * windows.len() as u64;
        let bytes: u64 = collector.plan().columns.iter().map(|c| c.length * c.output_step_bytes).sum::<u64>()
            * bytes
            / windows.len() as u64;
        let mut random = Random(1);
        let (mut all, mut copying) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let indices: Vec<u64> = (0..BATCH).map(|_| random.below(store.capacity())).collect();
            let most = store.schema().max_steps() - STEPS;
            let steps: Vec<u64> = (0..BATCH).map(|_| 10 + random.below(most)).collect();
            let begin = Instant::now();
            let pinned = store.pin(&indices)?;
            let pinned_at = Instant::now();
            black_box(collector.collect(&pinned, &steps)?);
            copying.push(pinned_at.elapsed());
            drop(pinned);
            all.push(begin.elapsed());
        }
        let plain = plain_copies(bytes, threads);
        let rate = |time: Duration| bytes as f64 / time.as_secs_f64() / 1e9;
        let (all, copying) = (rate(median(all)), rate(median(copying)));
        println!(
            "{what}, {threads} threads, {:.1} MB: {all:.2} with pins, {copying:.2} collect alone, {plain:.2} memcpy: {:.0} % and {:.0} %",
            bytes as f64 / 1e6,
            all / plain * 100.0,
            copying / plain * 100.0
        );
    }
    Ok(())
}

/// Measures, in GB/s, how fast `bytes` bytes are copied from a source of 1.4 GB to three destinations, which are used
/// in turn. Each thread copies one piece.
fn plain_copies(bytes: u64, threads: usize) -> f64 {
    let bytes = usize::try_from(bytes).unwrap_or(0);
    let part = bytes / threads;
    let source = vec![1_u8; 1 << 30];
    let times: Vec<f64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|thread| {
                let source =
                    &source[thread * (source.len() / threads)..(thread + 1) * (source.len() / threads)];
                scope.spawn(move || {
                    let mut outputs = vec![vec![2_u8; part]; 3];
                    let mut times = Vec::new();
                    for round in 0..ROUNDS {
                        let at = (round * part * 7) % (source.len() - part);
                        let begin = Instant::now();
                        outputs[round % 3].copy_from_slice(black_box(&source[at..at + part]));
                        times.push(begin.elapsed());
                        black_box(&outputs);
                    }
                    median(times).as_secs_f64()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(f64::NAN)).collect()
    });
    bytes as f64 / times.iter().copied().fold(0.0, f64::max) / 1e9
}

fn insert() -> Result<()> {
    let store = filled(vectors(), 1000, 4096)?;
    let bytes: Vec<Vec<u8>> = vectors()
        .iter()
        .map(|column| vec![1; usize::try_from(column.step_bytes().unwrap_or(0) * 1000).unwrap_or(0)])
        .collect();
    let columns: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
    let begin = Instant::now();
    for _ in 0..4096 {
        store.insert(&columns, 1000, 1.0)?;
    }
    let seconds = begin.elapsed().as_secs_f64();
    let total: usize = bytes.iter().map(Vec::len).sum::<usize>() * 4096;
    println!(
        "inserting 4096 trajectories of 172 kB: {:.2} GB/s, {:.0} per second",
        total as f64 / seconds / 1e9,
        4096.0 / seconds
    );
    Ok(())
}

fn checkpoint(folder: &Path, gib: u64) -> Result<()> {
    let store = filled(vectors(), 1000, gib * (1 << 30) / 172_000)?;
    let target = folder.join("measured-store");
    let gb = |bytes: u64, time: Duration| bytes as f64 / time.as_secs_f64() / 1e9;
    let mut bytes = 0;
    for round in 0..2 {
        let _: std::io::Result<()> = std::fs::remove_dir_all(&target);
        let begin = Instant::now();
        let saved = store.save(&target)?;
        let time = begin.elapsed();
        let data = target.join(format!("rows-{:010}.data", saved.number));
        let copied = copy(&data, &folder.join("measured-copy"));
        println!(
            "round {round}: save with fsync {:.2} GB/s; copy of the same file with fsync {:.2} GB/s: {:.0} %",
            gb(saved.written_bytes, time),
            gb(saved.written_bytes, copied),
            copied.as_secs_f64() / time.as_secs_f64() * 100.0
        );
        let begin = Instant::now();
        store.save(&target)?;
        println!("  save of nothing new: {:.1} ms", begin.elapsed().as_secs_f64() * 1e3);
        bytes = saved.written_bytes;
    }
    // Two stores with this size may not fit in memory.
    drop(store);
    for _ in 0..2 {
        let begin = Instant::now();
        let loaded = Store::load(&target)?;
        println!("load out of the page cache: {:.2} GB/s", gb(bytes, begin.elapsed()));
        drop(loaded);
    }
    let _: std::io::Result<()> = std::fs::remove_dir_all(&target);
    Ok(())
}

/// Copies a file as `cp` and `sync` do.
fn copy(from: &Path, to: &Path) -> Duration {
    let begin = Instant::now();
    let copied = std::fs::copy(from, to).and_then(|_| File::open(to)?.sync_all());
    let time = begin.elapsed();
    let _: std::io::Result<()> = std::fs::remove_file(to);
    if copied.is_ok() { time } else { Duration::MAX }
}
