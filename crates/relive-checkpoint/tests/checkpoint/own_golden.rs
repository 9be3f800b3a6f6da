//! Tests that checkpoints in Relive's format from old versions, and one from an independent writer, are read correctly.
//!
//! `fixtures/by_hand.py` is a second implementation, made from docs/checkpoint-format.md. `fixtures/own` was written by
//! [`golden`] and [`the_fixture_can_be_generated`] with `RELIVE_MAKE_FIXTURES=1`; it must not change for as long as
//! version 1 is supported.

#![expect(clippy::unwrap_used, reason = "a test all over")]

use std::path::Path;
use std::sync::Arc;

use relive_checkpoint::{Catalog, CheckpointSummary, LoadOptions, Store};
use relive_table::{
    CheckpointProgress, RateLimiterConfig, SelectorKind, Snapshot, TableConfig, TableCounters, Timestamp,
};
use relive_tensor::{
    Chunk, ChunkParts, Codec, ColumnHeader, DType, Nest, SequenceRange, Shape, Slice, Tensor, TensorSpec,
    Trajectory, TrajectoryBuilder,
};

use crate::support::{Folder, chunk, chunk_of, contents, fixtures, snapshot, table, trajectory};

fn load(folder: &Path) -> Snapshot {
    let catalog = Catalog::open(folder.to_str().unwrap()).unwrap();
    let loaded = catalog.load(&LoadOptions::new()).unwrap().unwrap();
    assert_eq!(loaded.losses, []);
    assert!(catalog.verify(&CheckpointProgress::default()).unwrap().is_whole());
    loaded.snapshot
}

fn summary(folder: &Path) -> CheckpointSummary {
    let checkpoints = Catalog::open(folder.to_str().unwrap()).unwrap().checkpoints().unwrap();
    checkpoints.into_iter().next_back().unwrap().summary.unwrap()
}

/// Something of everything.
fn golden() -> Snapshot {
    let strings = Tensor::from_strings(["", "two", "more than both"], [3]).unwrap();
    let wide = Tensor::from_slice(&(0..600_i64).collect::<Vec<_>>(), [3, 200]).unwrap();
    let several = chunk_of(u64::MAX, &[strings, wide.clone()], true, Codec::Snappy);
    let same_key = [chunk(5, 1.0, 4), chunk(5, 9.0, 4)];
    let codecs = [Codec::Raw, Codec::Lz4, Codec::Zstd];
    let others =
        (10..).zip(codecs).map(|(key, codec)| chunk_of(key, std::slice::from_ref(&wide), false, codec));
    let mut trajectories: Vec<Trajectory> = others.map(|chunk| trajectory(&[chunk])).collect();
    trajectories.extend(same_key.iter().map(|chunk| trajectory(std::slice::from_ref(chunk))));
    trajectories.push(squeezed(&several, &same_key[0]));
    let signature = Nest::dict([
        ("x", Nest::Leaf(bounded())),
        (
            "y",
            Nest::Tuple(vec![
                Nest::None,
                Nest::List(Vec::new()),
                Nest::Leaf(TensorSpec::new("", DType::String, None)),
            ]),
        ),
    ]);
    let limiter =
        RateLimiterConfig { samples_per_insert: 0.25, min_size_to_sample: 7, min_diff: -3.5, max_diff: 1e18 };
    let config = TableConfig::new("ü")
        .sampler(SelectorKind::Prioritized { exponent: -0.5 })
        .remover(SelectorKind::MaxHeap)
        .max_times_sampled(-3)
        .rate_limiter(limiter)
        .signature(signature);
    let first = table(config, trajectories);
    let shared = table(TableConfig::queue("queue", 8), [trajectory(&[several]), trajectory(&[verbatim()])]);
    let empty = table(TableConfig::new("empty").sampler(SelectorKind::WithoutReplacement).max_size(3), []);
    snapshot(vec![first, shared, empty])
}

fn bounded() -> TensorSpec {
    let mut spec = TensorSpec::new("x", DType::Float32, Some(vec![None, Some(2)]));
    spec.bounds = Some((Tensor::scalar(-1.0_f32), Tensor::from_slice(&[1.0_f32, 2.0], [2]).unwrap()));
    spec
}

fn squeezed(several: &Arc<Chunk>, other: &Arc<Chunk>) -> Trajectory {
    let mut builder = TrajectoryBuilder::new();
    let (several, other) = (builder.chunk(Arc::clone(several)), builder.chunk(Arc::clone(other)));
    for (chunk, index, squeeze) in [(several, 0, true), (several, 1, false), (other, 0, true)] {
        builder.begin_column(squeeze);
        builder.slice(Slice { chunk, offset: 1, length: 1, index });
    }
    builder.build().unwrap()
}

/// Returns a chunk whose frame contains more than its payload.
fn verbatim() -> Arc<Chunk> {
    let column = ColumnHeader { dtype: DType::UInt8, codec: Codec::Raw, shape: Shape::from([2]), span: 2..4 };
    let range = SequenceRange { episode_id: 9, start: -1, end: -1, sparse: false };
    let frame = (*b"a message").into();
    let columns = [column].into_iter().collect();
    Arc::new(
        Chunk::new(ChunkParts { key: 3, range, columns, delta_encoded: false, frame, verbatim: true })
            .unwrap(),
    )
}

#[test]
fn the_fixture_can_be_generated() {
    let folder = Folder::new();
    let make = std::env::var_os("RELIVE_MAKE_FIXTURES").is_some();
    let root = if make { fixtures().join("own") } else { folder.to_path_buf() };
    Store::open(root.to_str().unwrap()).unwrap().save(golden(), &CheckpointProgress::default()).unwrap();
    assert_eq!(contents(&load(&root)), contents(&golden()));
}

#[test]
fn the_golden_checkpoint_is_readable() {
    let folder = fixtures().join("own");
    let loaded = load(&folder);
    assert_eq!(contents(&loaded), contents(&golden()));
    let sequences: Vec<u64> = loaded.tables[0].items.iter().map(|item| item.data.sequence).collect();
    assert_eq!(sequences, [0, 1, 2, 3, 4, 5]);
    let chunk = loaded.tables[1].items[1].data.trajectory.chunks()[0].clone();
    assert_eq!((chunk.is_verbatim(), &*chunk.frame()), (true, b"a message".as_slice()));
    let summary = summary(&folder);
    assert_eq!(
        (summary.software.as_deref(), summary.items, summary.chunks),
        (Some("relive 0.1.0"), 8, Some(7))
    );
}

#[test]
fn a_checkpoint_written_from_the_format_document_is_readable() {
    let folder = fixtures().join("by_hand");
    let Snapshot { tables, .. } = load(&folder);
    let [table] = tables.as_slice() else { panic!("there are {} tables", tables.len()) };
    let signature = Nest::dict([
        ("a", TensorSpec::new("a", DType::UInt8, Some(vec![None]))),
        ("b", TensorSpec::new("", DType::Int32, None)),
    ]);
    let limiter =
        RateLimiterConfig { samples_per_insert: 2.0, min_size_to_sample: 3, min_diff: -4.5, max_diff: 1e9 };
    let config = TableConfig::new("ü")
        .sampler(SelectorKind::Prioritized { exponent: 0.75 })
        .max_size(1000)
        .max_bytes(1 << 40)
        .max_times_sampled(-1)
        .rate_limiter(limiter)
        .signature(signature);
    assert_eq!(*table.config, config);
    let counters =
        TableCounters { inserts: 10, samples: 20, deletes: 7, deleted_episodes: 4, unique_samples: 5 };
    assert_eq!(table.counters, counters);
    let numbers: Vec<_> = table
        .items
        .iter()
        .map(|item| {
            (item.data.key, item.data.sequence, item.data.inserted_at, item.priority, item.times_sampled)
        })
        .collect();
    let at = Timestamp::from_nanos;
    let expected =
        [(1, 100, at(5), 1.5, 0), (u64::MAX, 107, at(3), f64::INFINITY, -1), (9, 1 << 40, at(-1), 0.0, 8)];
    assert_eq!(numbers, expected);
    let columns: Vec<Tensor> =
        table.items.iter().flat_map(|item| item.data.trajectory.decode().unwrap()).collect();
    let expected = [
        Tensor::from_slice(&[20_u8, 30, 10], [3]),
        Tensor::from_slice(&[1_i32, -2, 3, -4], [2, 2]),
        Tensor::from_slice(&[0.5_f32], []),
        Tensor::from_slice(&[30_u8], []),
    ];
    assert_eq!(columns, expected.map(Result::unwrap));
    let second = table.items[1].data.trajectory.chunks()[0].clone();
    let range = SequenceRange { episode_id: 1 << 63, start: -4, end: 9, sparse: true };
    assert_eq!((second.key(), second.range(), second.is_delta_encoded()), (77, range, false));
    let summary = summary(&folder);
    assert_eq!(
        (summary.software.as_deref(), summary.chunks, summary.segments),
        (Some("by hand"), Some(2), 1)
    );
    assert_eq!(summary.created_at, at(1_700_000_000_123_456_789));
}
