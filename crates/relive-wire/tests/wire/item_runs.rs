//! Tests that items that are sent in columns are unchanged, and that columns that contradict each other are refused.

use std::collections::HashMap;
use std::sync::Arc;

use crate::common::{Inserted, inserted};
use relive_tensor::{Chunk, Codec, SequenceRange, Tensor, TrajectoryBuilder, encode_chunk};
use relive_wire::item_run::{self, RunSlice};
use relive_wire::reverb::PrioritizedItem;
use relive_wire::v1::ItemRun;
use relive_wire::{Message, WireError, chunk, item};

/// Returns whether an item uses only the first column of each chunk.
fn is_of_first_columns(item: &PrioritizedItem) -> bool {
    columns_of(item).all(|column| column.chunk_slices.iter().all(|slice| slice.index == 0))
}

fn columns_of(
    item: &PrioritizedItem,
) -> impl Iterator<Item = &relive_wire::reverb::flat_trajectory::Column> + Clone {
    item.flat_trajectory.iter().flat_map(|flat| &flat.columns)
}

fn push(run: &mut ItemRun, item: &PrioritizedItem) {
    run.begin_item(item.key, item.priority);
    for column in columns_of(item) {
        run.push_column(column.chunk_slices.iter().map(|slice| RunSlice {
            chunk_key: slice.chunk_key,
            index: slice.index.unsigned_abs(),
            offset: slice.offset.unsigned_abs(),
            length: slice.length.unsigned_abs(),
        }));
    }
}

/// Returns the items in as few runs as possible, after encoding and decoding.
fn in_runs<'a>(items: impl Iterator<Item = &'a PrioritizedItem>) -> Vec<ItemRun> {
    let mut runs: Vec<ItemRun> = Vec::new();
    for item in items {
        let squeeze = || columns_of(item).map(|column| column.squeeze);
        if !runs.last().is_some_and(|run| run.accepts(&item.table, squeeze())) {
            runs.push(ItemRun::new(&item.table, squeeze()));
        }
        push(runs.last_mut().expect("a run for it"), item);
    }
    runs.iter()
        .map(|run| ItemRun::decode(run.encode_to_vec().as_slice()).expect("what was encoded"))
        .collect()
}

#[test]
fn recorded_items_are_identical_in_columnar_form() {
    let mut seen = 0;
    for fixture in
        ["insert_chunks_of_four.bin", "insert_dtypes.bin", "insert_partial_steps.bin", "insert_strings.bin"]
    {
        let Inserted { chunks, items } = inserted(fixture);
        let items: Vec<_> =
            items.iter().map(|(item, _)| item).filter(|item| is_of_first_columns(item)).collect();
        let mut expected = items.iter();
        for run in in_runs(items.iter().copied()) {
            let mut builder = TrajectoryBuilder::new();
            for decoded in item_run::decode(&run, &mut builder, |key| chunks.get(&key).cloned()).unwrap() {
                let (decoded, expected) = (decoded.unwrap(), expected.next().unwrap());
                assert_eq!((decoded.key, decoded.times_sampled), (expected.key, 0));
                assert_eq!(decoded.priority.to_bits(), expected.priority.to_bits());
                assert_eq!(Some(item::flat_trajectory(&decoded.trajectory)), expected.flat_trajectory);
                seen += 1;
            }
        }
        assert!(expected.next().is_none(), "{fixture}");
    }
    assert!(seen > 10, "{seen}");
}

/// Returns a run of three items that have one, two and one slices, and refer to chunks with four rows.
fn run_of_three() -> (ItemRun, HashMap<u64, Arc<Chunk>>) {
    let keys = [5, 6];
    let chunk_of = |key| {
        let rows = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [4]).expect("four rows");
        let range = SequenceRange { episode_id: 1, start: 0, end: 3, sparse: false };
        let parts = encode_chunk(key, range, &[rows], false, Codec::Raw).expect("a chunk");
        (
            key,
            Arc::new(
                chunk::decode(&chunk::encode(&Chunk::new(parts).expect("a chunk")))
                    .expect("what was encoded"),
            ),
        )
    };
    let chunks = keys.map(chunk_of).into_iter().collect();
    let slice = |chunk: usize, offset, length| RunSlice { chunk_key: keys[chunk], index: 0, offset, length };
    let mut run = ItemRun::new("t", [false].into_iter());
    for (key, slices) in
        [(1, vec![slice(0, 0, 1)]), (2, vec![slice(0, 3, 1), slice(1, 0, 2)]), (3, vec![slice(1, 1, 1)])]
    {
        run.begin_item(key, 1.0);
        run.push_column(slices.into_iter());
    }
    (run, chunks)
}

/// A function that makes a run invalid.
type Corrupt = fn(&mut ItemRun);

fn decode_all(
    run: &ItemRun,
    chunks: &HashMap<u64, Arc<Chunk>>,
) -> Result<Vec<Result<u64, WireError>>, WireError> {
    let mut builder = TrajectoryBuilder::new();
    let items = item_run::decode(run, &mut builder, |key| chunks.get(&key).cloned())?;
    Ok(items.map(|item| item.map(|item| item.key)).collect())
}

#[test]
fn slice_counts_are_sent_only_if_they_differ() {
    let (run, chunks) = run_of_three();
    assert_eq!(run.slices, [1, 2, 1]);
    assert_eq!((run.chunks.as_slice(), run.chunk_keys.len()), ([0, 0, 1, 1].as_slice(), 2));
    let keys: Vec<u64> = decode_all(&run, &chunks).unwrap().into_iter().map(Result::unwrap).collect();
    assert_eq!(keys, [1, 2, 3]);
    let mut even = ItemRun::new("t", [true].into_iter());
    even.begin_item(1, 1.0);
    even.push_column([RunSlice { chunk_key: 9, index: 0, offset: 0, length: 1 }].into_iter());
    assert!(even.slices.is_empty());
}

#[test]
fn inconsistent_columns_are_refused() {
    let cases: [(Corrupt, &str); 8] = [
        (|run| *run = ItemRun::new("t", [false].into_iter()), "a run without items"),
        (|run| run.priorities.truncate(2), "2 priorities, but expected 3"),
        (|run| run.slices.truncate(2), "2 numbers of slices, but expected 3"),
        (|run| run.chunks.truncate(3), "3 chunks, but expected 4"),
        (|run| run.offsets.truncate(3), "3 offsets, but expected 4"),
        (|run| run.lengths.truncate(3), "3 lengths, but expected 4"),
        (|run| run.chunks[3] = 2, "a slice refers to chunk number 2, but there are 2"),
        (|run| run.slices = vec![u32::MAX; 3], "4 chunks, but expected 12884901885"),
    ];
    for (corrupt, expected) in cases {
        let (mut run, chunks) = run_of_three();
        corrupt(&mut run);
        let refused = decode_all(&run, &chunks).unwrap_err().to_string();
        assert_eq!(refused, format!("items for table `t`: {expected}"));
    }
}

#[test]
fn an_error_of_one_item_replaces_that_item() {
    let cases: [(Corrupt, &str); 4] = [
        (|run| run.lengths[1] = 9, "chunk"),
        (|run| run.lengths[1] = 0, "chunk"),
        (|run| run.chunk_keys[1] = 77, "refers to chunk 77, which this stream does not hold"),
        (|run| run.slices = vec![1, 0, 3], "item 2 has no trajectory"),
    ];
    for (corrupt, expected) in cases {
        let (mut run, chunks) = run_of_three();
        corrupt(&mut run);
        let items = decode_all(&run, &chunks).unwrap();
        assert_eq!(*items[0].as_ref().unwrap(), 1);
        let error = items[1].as_ref().unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("item 2"), "{error}");
    }
    let (mut run, chunks) = run_of_three();
    run.squeeze.clear();
    run.slices.clear();
    (run.chunks, run.offsets, run.lengths) = (Vec::new(), Vec::new(), Vec::new());
    let items = decode_all(&run, &chunks).unwrap();
    assert!(items.iter().all(|item| matches!(item, Err(WireError::NoTrajectory { .. }))));
}
