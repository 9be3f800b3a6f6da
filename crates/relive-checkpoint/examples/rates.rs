//! Measures how fast checkpoints are written and loaded, compared with a plain copy of the same files.
//!
//! ```text
//! cargo run --release -p relive-checkpoint --example rates -- FOLDER [ITEMS] [BYTES OF AN ITEM]
//! ```

#![expect(clippy::print_stdout, reason = "it is what the example is for")]

use std::error::Error;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use relive_checkpoint::{LoadOptions, Store};
use relive_table::{
    CheckpointProgress, ItemData, Snapshot, StoredItem, TableConfig, TableCounters, TableSnapshot, Timestamp,
};
use relive_tensor::{Chunk, Codec, SequenceRange, Slice, Tensor, TrajectoryBuilder, encode_chunk};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let folder = arguments.get(1).ok_or("which folder?")?;
    let number = |index: usize, default: u64| arguments.get(index).map_or(Ok(default), |text| text.parse());
    let (items, size) = (number(2, 1_000_000)?, number(3, 4_000)?);
    let root = Path::new(folder).join("checkpoints");
    let location = root.to_str().ok_or("the folder's name is no text")?;

    let first = snapshot(0..items, size)?;
    let bytes = items * size;
    let store = Store::open(location)?.keep(1);
    let (saved, took) = timed(|| store.save(first.clone(), &CheckpointProgress::default()))?;
    report("first checkpoint", saved.written_bytes, took);
    let copied = copy(&root, &Path::new(folder).join("copy"))?;
    report("plain copy, synced", saved.written_bytes, copied);
    println!("writing: {:.0} % of a plain copy", percent(copied, took));

    let second = replaced(first, items / 100, size)?;
    let (saved, took) = timed(|| store.save(second, &CheckpointProgress::default()))?;
    report("second, 1 % new", saved.written_bytes, took);
    println!("second: {:.1} % of the bytes", 100.0 * to_f64(saved.written_bytes) / to_f64(bytes));
    drop(store);

    let store = Store::open(location)?;
    let (loaded, took) = timed(|| store.load_latest(&LoadOptions::new()))?;
    report("load", saved.total_bytes, took);
    println!("loading: {:.0} % of a plain copy", percent(copied, took));
    drop(loaded);
    fs::remove_dir_all(&root)?;
    Ok(())
}

/// Copies all files of a folder and its subfolders, and makes the copies durable.
fn copy(from: &Path, to: &Path) -> Result<Duration> {
    let ((), took) = timed(|| copy_folder(from, to))?;
    fs::remove_dir_all(to)?;
    Ok(took)
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
            continue;
        }
        fs::copy(entry.path(), &target)?;
        File::open(&target)?.sync_all()?;
    }
    Ok(())
}

/// Returns a table of items, each with one chunk of incompressible bytes.
fn snapshot(numbers: std::ops::Range<u64>, size: u64) -> Result<Snapshot> {
    let items = numbers.clone().map(|number| item(number, size)).collect::<Result<Vec<_>>>()?;
    let counters = TableCounters { inserts: i64::try_from(items.len())?, ..TableCounters::default() };
    let table =
        TableSnapshot { config: Arc::new(TableConfig::new("replay")), counters, items, structure: None };
    Ok(Snapshot { tables: vec![table], ..Snapshot::default() })
}

/// Replaces the oldest `count` items with new ones.
fn replaced(mut snapshot: Snapshot, count: u64, size: u64) -> Result<Snapshot> {
    let Some(table) = snapshot.tables.first_mut() else { return Ok(snapshot) };
    let first = table.items.len() as u64;
    table.items.drain(..usize::try_from(count)?);
    for number in first..first + count {
        table.items.push(item(number, size)?);
    }
    Ok(snapshot)
}

fn item(number: u64, size: u64) -> Result<StoredItem> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut word = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let key = word();
    let words: Vec<u64> = (0..size / 8).map(|_| word()).collect();
    let rows = Tensor::from_slice(&words, [1, u32::try_from(words.len())?])?;
    let range = SequenceRange { episode_id: number / 100, start: 0, end: 0, sparse: false };
    let chunk = Arc::new(Chunk::new(encode_chunk(key, range, &[rows], false, Codec::Raw)?)?);
    let mut builder = TrajectoryBuilder::new();
    builder.begin_column(true);
    let chunk = builder.chunk(chunk);
    builder.slice(Slice { chunk, offset: 0, length: 1, index: 0 });
    let inserted_at = Timestamp::from_nanos(i64::try_from(number * 1_234_567)?);
    let data = ItemData { key, sequence: number, inserted_at, trajectory: builder.build()? };
    Ok(StoredItem { data: Arc::new(data), priority: to_f64(key % 1000), times_sampled: 0 })
}

fn timed<T, E>(work: impl FnOnce() -> std::result::Result<T, E>) -> std::result::Result<(T, Duration), E> {
    let begun = Instant::now();
    Ok((work()?, begun.elapsed()))
}

fn report(what: &str, bytes: u64, took: Duration) {
    let rate = to_f64(bytes) / took.as_secs_f64() / 1e6;
    println!("{what:20} {:8.1} MB in {:7.2} s: {rate:7.0} MB/s", to_f64(bytes) / 1e6, took.as_secs_f64());
}

fn percent(reference: Duration, took: Duration) -> f64 {
    100.0 * reference.as_secs_f64() / took.as_secs_f64()
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn to_f64(number: u64) -> f64 {
    number as f64
}
