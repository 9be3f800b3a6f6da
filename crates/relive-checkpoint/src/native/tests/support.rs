//! Provides snapshots that change, and stores on simulated disks.

use std::sync::Arc;

use relive_table::{
    CheckpointProgress, ItemData, Snapshot, StoredItem, TableConfig, TableCounters, TableSnapshot, Timestamp,
};
use relive_tensor::{Chunk, Codec, Column, SequenceRange, Slice, Tensor, TrajectoryBuilder, encode_chunk};

use crate::native::Store;
use crate::native::save::Sizes;
use crate::simulated_disk::SimulatedDisk;
use crate::storage::LocalStorage;
use crate::{Error, LoadOptions, Loaded};

/// The limits are small, so that a small snapshot has several segments and blocks.
pub(super) const SIZES: Sizes = Sizes { segment_bytes: 3000, block_bytes: 600, block_entries: 5 };

pub(super) fn store(disk: &SimulatedDisk) -> Result<Store, Error> {
    Store::on(Arc::new(LocalStorage::on(Arc::new(disk.clone()), "/store")), SIZES)
}

pub(super) fn load(store: &Store) -> Option<Loaded> {
    load_with(store, &LoadOptions::new().threads(1)).unwrap()
}

pub(super) fn load_with(store: &Store, options: &LoadOptions) -> Result<Option<Loaded>, Error> {
    store.load_latest(options)
}

pub(super) fn save(store: &Store, snapshot: &Snapshot) -> Result<u64, Error> {
    store.save(snapshot.clone(), &CheckpointProgress::default()).map(|saved| saved.written_bytes)
}

/// Returns a chunk with different content for each number.
pub(super) fn chunk(number: u64) -> Arc<Chunk> {
    let mut state = number;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state.to_be_bytes()[0]
    };
    let bytes: Vec<u8> = (0..200 + number % 7 * 30).map(|_| next()).collect();
    let rows = Tensor::from_slice(&bytes, [u32::try_from(bytes.len()).unwrap()]).unwrap();
    let range = SequenceRange { episode_id: number / 4, start: 3, end: 9, sparse: true };
    // Many chunks share the same few keys, since chunks are not identified by their keys.
    Arc::new(Chunk::new(encode_chunk(number % 3, range, &[rows], false, Codec::Snappy).unwrap()).unwrap())
}

fn item(number: u64, chunks: &[Arc<Chunk>]) -> StoredItem {
    let mut builder = TrajectoryBuilder::new();
    for chunk in chunks {
        builder.begin_column(false);
        let chunk = builder.chunk(Arc::clone(chunk));
        builder.slice(Slice { chunk, offset: u32::try_from(number % 50).unwrap(), length: 20, index: 0 });
    }
    let inserted_at = Timestamp::from_nanos(i64::try_from(number * 1_000_003).unwrap());
    let data = ItemData {
        key: number ^ 0xaa,
        sequence: 10 + 2 * number,
        inserted_at,
        trajectory: builder.build().unwrap(),
    };
    StoredItem { data: Arc::new(data), priority: 0.1 * number as f64, times_sampled: 3 }
}

/// Returns two tables of items, in which neighboring items share chunks.
pub(super) fn snapshot(numbers: impl Iterator<Item = u64> + Clone) -> Snapshot {
    let chunks: std::collections::BTreeMap<u64, Arc<Chunk>> = numbers
        .clone()
        .flat_map(|number| [number, number + 1])
        .map(|number| (number, chunk(number)))
        .collect();
    let pair = |number: u64| [Arc::clone(&chunks[&number]), Arc::clone(&chunks[&(number + 1)])];
    let whole: Vec<StoredItem> = numbers.clone().map(|number| item(number, &pair(number))).collect();
    let half =
        numbers.filter(|number| number % 2 == 0).map(|number| item(number, &pair(number)[1..])).collect();
    let tables = [("whole", whole), ("half", half)].map(|(name, items)| table(name, items));
    Snapshot { tables: tables.into(), ..Snapshot::default() }
}

fn table(name: &str, items: Vec<StoredItem>) -> TableSnapshot {
    let inserts = i64::try_from(items.len()).unwrap() + 7;
    let counters = TableCounters { inserts, samples: 5, deletes: 7, deleted_episodes: 1, unique_samples: 2 };
    TableSnapshot { config: Arc::new(TableConfig::new(name)), counters, items, structure: None }
}

/// Returns a later snapshot: some items are gone, some are new, and the rest are identical.
pub(super) fn later(before: &Snapshot, stay: impl Fn(u64) -> bool, new: std::ops::Range<u64>) -> Snapshot {
    let mut after = before.clone();
    let fresh = snapshot(new);
    for (table, fresh) in after.tables.iter_mut().zip(fresh.tables) {
        table.items.retain(|item| stay((item.data.sequence - 10) / 2));
        table.items.extend(fresh.items);
        table.counters.inserts = i64::try_from(table.items.len()).unwrap() + 7;
    }
    after
}

/// Returns everything that a checkpoint preserves, as text.
pub(super) fn describe(snapshot: &Snapshot) -> String {
    let mut text = String::new();
    for table in &snapshot.tables {
        text += &format!("{:?} {:?}\n", table.config, table.counters);
        text.extend(table.items.iter().map(describe_item));
    }
    text
}

/// Returns an item as text, without its table's properties.
pub(super) fn describe_item(item: &StoredItem) -> String {
    let data = &item.data;
    let describe = |column: Column<'_>| (column.squeeze(), column.slices().collect::<Vec<_>>());
    let slices: Vec<_> = data.trajectory.columns().map(describe).collect();
    let columns = data.trajectory.decode().unwrap();
    let ranges: Vec<_> = data.trajectory.chunks().iter().map(|chunk| (chunk.key(), chunk.range())).collect();
    let numbers = (data.key, data.sequence, data.inserted_at, item.priority, item.times_sampled);
    let bytes: Vec<_> = columns.iter().map(|column| column.bytes()).collect();
    format!("{numbers:?} {slices:?} {ranges:?} {bytes:?}\n")
}

/// Checks that the files of a disk are exactly those that its checkpoints need.
pub(super) fn assert_no_garbage(disk: &SimulatedDisk) {
    let storage = LocalStorage::on(Arc::new(disk.clone()), "/store");
    let listing = crate::native::Listing::read(&storage).unwrap();
    let mut needed = std::collections::HashSet::new();
    for (number, _) in &listing.checkpoints {
        let name = crate::names::checkpoint_name(*number);
        let (description, _) = crate::manifest::read_description(&storage, &name).unwrap();
        needed.extend(description.segments.into_iter().map(|segment| segment.id));
    }
    let there: std::collections::HashSet<_> = listing.segments.keys().copied().collect();
    assert_eq!(there, needed);
    assert_eq!(listing.leftovers, Vec::<String>::new());
}
