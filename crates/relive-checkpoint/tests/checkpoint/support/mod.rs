//! Snapshots, their contents in comparable form, and folders for them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use relive_checkpoint::{Format, Root};
use relive_table::{
    CheckpointProgress, ItemData, Snapshot, StoredItem, TableConfig, TableCounters, TableSnapshot, Timestamp,
};
use relive_tensor::{
    Chunk, Codec, SequenceRange, Slice, Tensor, Trajectory, TrajectoryBuilder, encode_chunk,
};

/// A folder that is removed when this value is dropped.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("checkpoints-{}-{number}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Copies a folder of files to a subfolder of this one.
    pub fn copy(&self, from: &Path, name: &str) -> PathBuf {
        let to = self.0.join(name);
        std::fs::create_dir_all(&to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
        to
    }
}

impl std::ops::Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The fixtures' folder.
pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// Returns a chunk with one column of floats that count up from `first`.
pub fn chunk(key: u64, first: f32, rows: u16) -> Arc<Chunk> {
    let values: Vec<f32> = (0..rows).map(|row| first + f32::from(row)).collect();
    let column = Tensor::from_slice(&values, [u32::from(rows)]).unwrap();
    chunk_of(key, &[column], false, Codec::Snappy)
}

pub fn chunk_of(key: u64, columns: &[Tensor], delta: bool, codec: Codec) -> Arc<Chunk> {
    let range = SequenceRange { episode_id: key / 2, start: 3, end: 7, sparse: true };
    Arc::new(Chunk::new(encode_chunk(key, range, columns, delta, codec).unwrap()).unwrap())
}

/// Returns a trajectory of one column that joins all rows of the chunks.
pub fn trajectory(chunks: &[Arc<Chunk>]) -> Trajectory {
    let mut builder = TrajectoryBuilder::new();
    builder.begin_column(false);
    for chunk in chunks {
        let (number, length) = (builder.chunk(Arc::clone(chunk)), chunk.rows(0).unwrap());
        builder.slice(Slice { chunk: number, offset: 0, length, index: 0 });
    }
    builder.build().unwrap()
}

/// Returns a table of items with these trajectories, in this order; keys count up from 10.
pub fn table(config: TableConfig, trajectories: impl IntoIterator<Item = Trajectory>) -> TableSnapshot {
    let stored = |(sequence, trajectory): (u64, Trajectory)| {
        let inserted_at = Timestamp::from_parts(1_700_000_000, 5).unwrap();
        let data = ItemData { key: 10 + sequence, sequence, inserted_at, trajectory };
        StoredItem { data: Arc::new(data), priority: 0.5, times_sampled: 3 }
    };
    let items: Vec<StoredItem> = (0..).zip(trajectories).map(stored).collect();
    let inserts = i64::try_from(items.len()).unwrap() + 2;
    let counters = TableCounters { inserts, samples: 9, deletes: 2, deleted_episodes: 1, unique_samples: 4 };
    TableSnapshot { config: Arc::new(config), counters, items, structure: None }
}

pub fn snapshot(tables: Vec<TableSnapshot>) -> Snapshot {
    Snapshot { tables, ..Snapshot::default() }
}

/// Returns a snapshot of two tables that share chunks.
pub fn small() -> Snapshot {
    let chunks = [chunk(1, 1.0, 3), chunk(2, 20.0, 2)];
    let first = table(TableConfig::new("a"), [trajectory(&chunks), trajectory(&chunks[1..])]);
    snapshot(vec![first, table(TableConfig::queue("b", 8), [trajectory(&chunks[..1])])])
}

/// Saves a snapshot in dm-reverb's format, and returns the folder of the checkpoint.
pub fn save_as_reverb(root: &Path, snapshot: &Snapshot) -> PathBuf {
    let root = Root::new(root.to_str().unwrap()).format(Format::Reverb);
    root.save(snapshot.clone(), &CheckpointProgress::default()).unwrap().location.into()
}

/// All of a table's data that a checkpoint preserves.
#[derive(Debug, PartialEq)]
pub struct TableContents {
    pub config: TableConfig,
    pub counters: TableCounters,
    pub items: Vec<ItemContents>,
}

#[derive(Debug, PartialEq)]
pub struct ItemContents {
    pub key: u64,
    pub priority: f64,
    pub times_sampled: i32,
    pub inserted_at: Timestamp,
    pub columns: Vec<Tensor>,
    /// Whether the column is squeezed, and its slices.
    pub slices: Vec<(bool, Vec<SliceContents>)>,
}

/// Range of the chunk, offset, length, index.
pub type SliceContents = (SequenceRange, u32, u32, u32);

pub fn contents(snapshot: &Snapshot) -> Vec<TableContents> {
    let contents = |table: &TableSnapshot| TableContents {
        config: TableConfig::clone(&table.config),
        counters: table.counters,
        items: table.items.iter().map(item_contents).collect(),
    };
    snapshot.tables.iter().map(contents).collect()
}

fn item_contents(item: &StoredItem) -> ItemContents {
    let trajectory = &item.data.trajectory;
    let slices = trajectory.columns().map(|column| {
        let of = |slice: Slice| {
            (column.chunk_of(&slice).unwrap().range(), slice.offset, slice.length, slice.index)
        };
        (column.squeeze(), column.slices().map(of).collect())
    });
    ItemContents {
        key: item.data.key,
        priority: item.priority,
        times_sampled: item.times_sampled,
        inserted_at: item.data.inserted_at,
        columns: trajectory.decode().unwrap(),
        slices: slices.collect(),
    }
}
