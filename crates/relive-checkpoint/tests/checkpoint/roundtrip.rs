//! Tests that any saved snapshot is loaded unchanged.

#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "a test all over, with small numbers"
)]

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::sample::Index;
use relive_checkpoint::{LoadOptions, Store, load};
use relive_table::{
    CheckpointProgress, ItemData, RateLimiterConfig, SelectorKind, Snapshot, StoredItem, TableConfig,
    TableCounters, TableSnapshot, Timestamp,
};
use relive_tensor::{Chunk, Codec, DType, Nest, Slice, Tensor, TensorSpec, TrajectoryBuilder};

use crate::support::{Folder, chunk, chunk_of, contents, save_as_reverb, snapshot, table, trajectory};

fn selectors() -> impl Strategy<Value = SelectorKind> {
    prop_oneof![
        Just(SelectorKind::Fifo),
        Just(SelectorKind::Lifo),
        Just(SelectorKind::Uniform),
        Just(SelectorKind::MinHeap),
        Just(SelectorKind::MaxHeap),
        (-3.0..3.0).prop_map(|exponent| SelectorKind::Prioritized { exponent }),
    ]
}

prop_compose! {
    fn configs()(
        sampler in selectors(), remover in selectors(), max_size in 100_u64..i32::MAX as u64,
        max_times_sampled in any::<i32>(), samples_per_insert in 1e-3..1e3_f64, min_size_to_sample in 1_i64..99,
        min_diff in -1e9..0.0_f64, max_diff in prop_oneof![Just(f64::MAX), 0.0..1e9_f64], has_signature in any::<bool>(),
    ) -> TableConfig {
        let limiter = RateLimiterConfig { samples_per_insert, min_size_to_sample, min_diff, max_diff };
        let config = TableConfig::new("").sampler(sampler).remover(remover).max_size(max_size);
        let config = config.max_times_sampled(max_times_sampled).rate_limiter(limiter);
        let spec = TensorSpec::new("x", DType::Int16, Some(vec![None, Some(3)]));
        if has_signature { config.signature(Nest::dict([("ü", spec)])) } else { config }
    }
}

/// Returns a tensor of one of the types, with this many rows.
fn tensor(kind: u8, rows: u32, seed: u8) -> Tensor {
    let bytes = |width: u32| -> Bytes { (0..rows * width).map(|at| (at as u8).wrapping_mul(seed)).collect() };
    match kind {
        0 => Tensor::new(DType::UInt8, [rows, 5], bytes(5)).unwrap(),
        1 => Tensor::new(DType::Int32, [rows, 2], bytes(8)).unwrap(),
        2 => Tensor::new(DType::Float64, [rows], bytes(8)).unwrap(),
        _ => {
            let values: Vec<Bytes> =
                (0..rows).map(|row| Bytes::from(vec![seed; row as usize * 60])).collect();
            Tensor::from_strings(values, [rows]).unwrap()
        }
    }
}

/// Returns chunks with one or two tensors each, and the kinds of these tensors.
fn chunks() -> impl Strategy<Value = Vec<Arc<Chunk>>> {
    let codec = prop_oneof![Just(Codec::Snappy), Just(Codec::Raw), Just(Codec::Zstd), Just(Codec::Lz4)];
    let one = (prop::collection::vec((0_u8..4, any::<u8>()), 1..3), 1_u32..6, any::<bool>(), codec);
    prop::collection::vec(one, 1..8).prop_map(|chunks| {
        (0..)
            .zip(chunks)
            .map(|(key, (kinds, rows, delta, codec))| {
                let columns: Vec<Tensor> =
                    kinds.iter().map(|&(kind, seed)| tensor(kind, rows, seed)).collect();
                chunk_of(u64::MAX - key, &columns, delta, codec)
            })
            .collect()
    })
}

type ItemDraft = (f64, i32, i64, Vec<(Index, Index, Index, bool)>);

fn items() -> impl Strategy<Value = Vec<ItemDraft>> {
    let column = (any::<Index>(), any::<Index>(), any::<Index>(), any::<bool>());
    let columns = prop::collection::vec(column, 1..4);
    prop::collection::vec((any::<f64>(), any::<i32>(), 0..i64::MAX, columns), 0..12)
}

fn item(sequence: u64, draft: &ItemDraft, chunks: &[Arc<Chunk>]) -> StoredItem {
    let (priority, times_sampled, nanos, columns) = draft;
    let mut builder = TrajectoryBuilder::new();
    for (chunk, offset, index, squeeze) in columns {
        let chunk = chunk.get(chunks);
        let index = index.index(chunk.num_columns());
        let rows = chunk.rows(index).unwrap();
        let offset = u32::try_from(offset.index(rows as usize)).unwrap();
        let length = if *squeeze { 1 } else { rows - offset };
        builder.begin_column(*squeeze);
        let index = u32::try_from(index).unwrap();
        let number = builder.chunk(Arc::clone(chunk));
        builder.slice(Slice { chunk: number, offset, length, index });
        if !*squeeze {
            builder.slice(Slice { chunk: number, offset: 0, length: 1, index });
        }
    }
    let trajectory = builder.build().unwrap();
    let key = sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let data = ItemData { key, sequence, inserted_at: Timestamp::from_nanos(*nanos), trajectory };
    StoredItem { data: Arc::new(data), priority: *priority, times_sampled: *times_sampled }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_snapshot_round_trips(
        chunks in chunks(),
        tables in prop::collection::vec((configs(), items(), 0..i64::MAX / 2, any::<i32>()), 1..4),
    ) {
        let tables = tables.into_iter().enumerate().map(|(number, (config, items, deletes, count))| {
            let items: Vec<_> = (0..).zip(&items).map(|(sequence, draft)| item(sequence, draft, &chunks)).collect();
            let counters = TableCounters {
                inserts: deletes + items.len() as i64,
                samples: i64::from(count.unsigned_abs()),
                deletes,
                deleted_episodes: 7,
                unique_samples: u64::from(count.unsigned_abs()),
            };
            let config = Arc::new(TableConfig { name: format!("table {number}"), ..config });
            TableSnapshot { config, counters, items, structure: None }
        });
        let saved = snapshot(tables.collect());
        let root = Folder::new();
        prop_assert_eq!(contents(&written_as_reverb(&root, &saved)), contents(&saved));
        let root = Folder::new();
        let store = Store::open(root.to_str().unwrap()).unwrap();
        store.save(saved.clone(), &CheckpointProgress::default()).unwrap();
        let loaded = store.load_latest(&LoadOptions::new().threads(2)).unwrap().unwrap();
        prop_assert_eq!(loaded.losses, vec![]);
        prop_assert_eq!(contents(&loaded.snapshot), contents(&saved));
        prop_assert_eq!(sequences(&loaded.snapshot), sequences(&saved));
        // Loaded data is not written again.
        let chunks: u64 = loaded.snapshot.ledger.snapshot().encoded_bytes;
        let again = store.save(loaded.snapshot, &CheckpointProgress::default()).unwrap();
        prop_assert_eq!(std::fs::read_dir(root.join("segments")).map_or(0, Iterator::count), usize::from(chunks > 0));
        let loaded = store.load_latest(&LoadOptions::new()).unwrap().unwrap();
        prop_assert_eq!(&loaded.location, &again.location);
        prop_assert_eq!(contents(&loaded.snapshot), contents(&saved));
    }
}

/// Saves the snapshot in dm-reverb's format, and returns what was loaded from the checkpoint.
fn written_as_reverb(root: &Path, snapshot: &Snapshot) -> Snapshot {
    let folder = save_as_reverb(root, snapshot);
    load(folder.to_str().unwrap(), &LoadOptions::new()).unwrap().snapshot
}

fn sequences(snapshot: &Snapshot) -> Vec<u64> {
    snapshot.tables.iter().flat_map(|table| &table.items).map(|item| item.data.sequence).collect()
}

#[test]
fn a_chunk_is_written_once_however_many_items_share_it() {
    let root = Folder::new();
    let shared =
        chunk_of(7, &[Tensor::new(DType::UInt8, [1, 9_999], noise(9_999)).unwrap()], false, Codec::Snappy);
    let items = (0..100).map(|_| trajectory(&[Arc::clone(&shared)]));
    let path = save_as_reverb(&root, &snapshot(vec![table(TableConfig::new("t"), items)]));
    let size = std::fs::metadata(path.join("chunks.tfrecord")).unwrap().len();
    assert!((9_999..11_000).contains(&size), "{size} bytes");
}

/// Returns bytes that do not compress.
fn noise(count: usize) -> Bytes {
    let next = |state: &mut u64| {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        Some(state.to_be_bytes()[0])
    };
    let mut state = 1_u64;
    std::iter::from_fn(|| next(&mut state)).take(count).collect()
}

#[test]
fn chunks_with_equal_keys_and_different_content_stay_separate() {
    let (one, other, next) = (chunk(5, 1.0, 2), chunk(5, 9.0, 2), chunk(6, 4.0, 1));
    let again = chunk(5, 1.0, 2);
    let items = [vec![one], vec![other], vec![next], vec![again]].map(|chunks| trajectory(&chunks));
    let saved = snapshot(vec![table(TableConfig::new("t"), items)]);
    let root = Folder::new();
    let loaded = written_as_reverb(&root, &saved);
    let first: Vec<Tensor> =
        loaded.tables[0].items.iter().flat_map(|item| item.data.trajectory.decode().unwrap()).collect();
    let expected: [&[f32]; 4] = [&[1.0, 2.0], &[9.0, 10.0], &[4.0], &[1.0, 2.0]];
    let expected = expected.map(|values| Tensor::from_slice(values, [values.len() as u32]).unwrap());
    assert_eq!(first, expected);
    assert_eq!(loaded.ledger.snapshot().chunks, 3, "what was sent twice is written once");
}

#[test]
fn small_snapshots_with_every_record_size_round_trip() {
    // A record length of 40,056 bytes looks like the header of a zlib stream.
    for size in [0, 1, 100, 40_056, 300_000] {
        let column = Tensor::new(DType::UInt8, [1, size], noise(size as usize)).unwrap();
        let items = [trajectory(&[chunk_of(1, &[column], false, Codec::Snappy)])];
        let saved = snapshot(vec![table(TableConfig::new("t"), items)]);
        let root = Folder::new();
        assert_eq!(contents(&written_as_reverb(&root, &saved)), contents(&saved), "{size}");
    }
}
