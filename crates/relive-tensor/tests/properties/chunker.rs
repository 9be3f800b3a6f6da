//! Chunkers and the auto-tuner.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use relive_tensor::{
    AutoTuner, CellRef, Chunk, ChunkLength, ChunkStatistic, ChunkerError, Codec, ColumnChunker, DType,
    FinishedChunk, PlacedRows, Shape, Tensor,
};

use crate::strategies::{dtypes, tensor_of};

fn chunker(max_chunk_length: u32) -> ColumnChunker {
    ColumnChunker::new(ChunkLength::constant(max_chunk_length, 100).expect("valid"), false).expect("valid")
}

fn keys() -> impl FnMut() -> u64 {
    let mut next = 0;
    move || {
        next += 1;
        next
    }
}

fn cells() -> impl Strategy<Value = Vec<Tensor>> {
    (dtypes(), vec(0..3_u32, 0..3), 1..30_usize)
        .prop_flat_map(|(dtype, cell, count)| vec(tensor_of(dtype, Shape::from(cell.as_slice())), count))
}

proptest! {
    #[test]
    fn every_cell_is_found_where_its_reference_says(
        cells in cells(),
        length in 1..6_u32,
        steps in vec((1..3_i32, any::<bool>()), 30),
        delta: bool,
    ) {
        let mut chunker = ColumnChunker::new(ChunkLength::constant(length, 6).unwrap(), delta).unwrap();
        let mut keys = keys();
        let (mut step, mut refs, mut chunks) = (-1, Vec::new(), BTreeMap::new());
        for (cell, (gap, flush)) in cells.iter().zip(steps) {
            step += gap;
            let (cell_ref, cut) = chunker.append(&mut keys, 9, step, cell).unwrap();
            refs.push((step, cell_ref));
            prop_assert!(cut.as_ref().is_none_or(|cut| cut.tensor.shape().rows() == Some(length)));
            let flushed = if flush { chunker.flush() } else { None };
            chunks.extend(cut.into_iter().chain(flushed).map(|chunk| (chunk.key, chunk)));
        }
        chunks.extend(chunker.flush().map(|chunk| (chunk.key, chunk)));
        prop_assert_eq!((chunker.flush(), chunker.buffered_rows()), (None, 0));
        for ((_, cell_ref), cell) in refs.iter().zip(&cells) {
            prop_assert_eq!(&found(&chunks[&cell_ref.chunk_key], *cell_ref), cell);
        }
        for (key, chunk) in &chunks {
            let steps: Vec<_> =
                refs.iter().filter(|(_, r)| r.chunk_key == *key).map(|(step, _)| *step).collect();
            let (start, end) = (steps[0], steps[steps.len() - 1]);
            prop_assert_eq!((chunk.range.episode_id, chunk.range.start, chunk.range.end), (9, start, end));
            let dense = usize::try_from(end - start + 1).unwrap() == steps.len();
            prop_assert_eq!(chunk.range.sparse, !dense);
        }
    }
}

proptest! {
    #[test]
    fn rows_together_are_the_same_as_one_by_one(
        cells in cells(),
        length in 1..6_u32,
        splits in vec(1..5_usize, 30),
        wide: bool,
    ) {
        // Wide cells are kept as they came, narrow ones are copied.
        let widen = |cell: &Tensor| Tensor::stack(&vec![cell.clone(); if wide { 700 } else { 1 }]).unwrap();
        let cells: Vec<Tensor> = cells.iter().map(widen).collect();
        let mut one_by_one = ColumnChunker::new(ChunkLength::constant(length, 6).unwrap(), false).unwrap();
        let mut together = one_by_one.clone();
        let (mut keys, mut same_keys) = (keys(), keys());
        let (mut from, mut expected, mut found) = (0, Vec::new(), Vec::new());
        for (turn, split) in splits.into_iter().enumerate() {
            let some = &cells[from..cells.len().min(from + split)];
            if some.is_empty() {
                break;
            }
            let step = |at: usize| i32::try_from(from + at).unwrap();
            let placed = if turn % 3 == 0 {
                let mut placed = Vec::new();
                for (at, cell) in some.iter().enumerate() {
                    let (first, cut) = together.append(&mut same_keys, 9, step(at), cell).unwrap();
                    placed.push(PlacedRows { first, rows: 1, cut });
                }
                placed
            } else {
                together.append_rows(&mut same_keys, 9, step(0), &Tensor::stack(some).unwrap()).unwrap()
            };
            for PlacedRows { first, rows, cut } in placed {
                let offsets = first.offset..first.offset + rows;
                found.extend(offsets.map(|offset| (CellRef { offset, ..first }, None)));
                found.last_mut().unwrap().1 = cut;
            }
            for (at, cell) in some.iter().enumerate() {
                expected.push(one_by_one.append(&mut keys, 9, step(at), cell).unwrap());
            }
            from += some.len();
            prop_assert_eq!(one_by_one.buffered_rows(), together.buffered_rows());
        }
        prop_assert_eq!(&expected, &found);
        if let Some(key) = together.pending_key() {
            let rows = together.buffered_rows();
            let pending = &cells[from - usize::try_from(rows).unwrap()..from];
            for (at, cell) in (0..).zip(pending) {
                let row = together.pending_rows(key, at, 1).unwrap().unwrap();
                prop_assert_eq!(&row.squeeze_leading().unwrap(), cell);
            }
            let all = together.pending_rows(key, 0, rows).unwrap().unwrap();
            prop_assert_eq!(all, Tensor::stack(pending).unwrap());
            prop_assert!(together.pending_rows(key, 1, rows).is_none());
            prop_assert!(together.pending_rows(key + 1, 0, rows).is_none());
        }
        prop_assert_eq!(one_by_one.flush(), together.flush());
    }
}

#[test]
fn rows_that_cannot_be_taken_change_nothing() {
    let (mut chunker, mut keys) = (chunker(3), keys());
    let rows = Tensor::from_slice(&[1_u8, 2], [2]).unwrap();
    assert_eq!(chunker.append_rows(&mut keys, 1, 0, &Tensor::scalar(1_u8)), Err(ChunkerError::NoRows));
    let too_far = chunker.append_rows(&mut keys, 1, i32::MAX, &rows);
    assert_eq!(too_far, Err(ChunkerError::Steps { first: i32::MAX, rows: 2 }));
    assert_eq!(chunker.append_rows(&mut keys, 1, 0, &rows).unwrap().len(), 1);
    assert_eq!(chunker.append_rows(&mut keys, 1, 1, &rows), Err(ChunkerError::Step { last: 1, given: 1 }));
    let other = Tensor::from_slice(&[1_u8, 2], [2, 1]).unwrap();
    assert!(matches!(chunker.append_rows(&mut keys, 1, 2, &other), Err(ChunkerError::Cell { .. })));
    assert_eq!(chunker.append_rows(&mut keys, 1, 2, &rows.rows(0..0).unwrap()).unwrap(), []);
    assert_eq!(chunker.buffered_rows(), 2);
}

/// The cell that a reference names, after encoding and decoding the chunk.
fn found(chunk: &FinishedChunk, cell_ref: CellRef) -> Tensor {
    let chunk = Chunk::new(chunk.encode(Codec::Snappy).expect("small")).expect("valid");
    let rows = chunk.decode_column(0).expect("valid");
    rows.rows(cell_ref.offset..cell_ref.offset + 1).and_then(|row| row.squeeze_leading()).expect("inside")
}

#[test]
fn the_first_cell_fixes_type_and_shape() {
    let (mut chunker, mut keys) = (chunker(1), keys());
    chunker.append(&mut keys, 1, 0, &Tensor::from_slice(&[1_i32, 2], [2]).unwrap()).unwrap();
    assert_eq!(chunker.spec(), Some((DType::Int32, &Shape::from([2]))));
    let wrong = Tensor::from_slice(&[1_i32, 2, 3], [3]).unwrap();
    let error = chunker.append(&mut keys, 1, 1, &wrong).unwrap_err();
    assert_eq!(error.to_string(), "the column holds int32[2], got int32[3]");
    let wrong = Tensor::from_slice(&[1_i64, 2], [2]).unwrap();
    let error = chunker.append(&mut keys, 1, 1, &wrong).unwrap_err();
    assert_eq!(error.to_string(), "the column holds int32[2], got int64[2]");
    let deep = Tensor::from_slice(&[1_i32], Shape::from_iter([1; 254])).unwrap();
    assert_eq!(chunker.append(&mut keys, 1, 1, &deep), Err(ChunkerError::Rank { rank: 254 }));
}

#[test]
fn steps_go_forward_inside_one_episode() {
    let (mut chunker, mut keys) = (chunker(3), keys());
    let cell = Tensor::scalar(1_u8);
    chunker.append(&mut keys, 1, 5, &cell).unwrap();
    let step = |given| Err(ChunkerError::Step { last: 5, given });
    assert_eq!(chunker.append(&mut keys, 1, 5, &cell), step(5));
    assert_eq!(chunker.append(&mut keys, 1, 4, &cell), step(4));
    let episode = Err(ChunkerError::Episode { buffered: 1, given: 2 });
    assert_eq!(chunker.append(&mut keys, 2, 6, &cell), episode);
    assert_eq!(chunker.buffered_rows(), 1);
    let cut = chunker.flush().unwrap();
    assert_eq!((cut.range.start, cut.range.end), (5, 5));
    // With nothing buffered, anything may follow.
    let (next, _) = chunker.append(&mut keys, 2, 0, &cell).unwrap();
    assert_eq!(next, CellRef { chunk_key: 2, offset: 0 });
    assert_eq!(chunker.pending_key(), Some(2));
}

#[test]
fn steps_may_reach_the_ends_of_their_range() {
    let (mut chunker, mut keys) = (chunker(3), keys());
    let cell = Tensor::scalar(1_u8);
    for step in [i32::MIN, i32::MAX - 1, i32::MAX] {
        chunker.append(&mut keys, 1, step, &cell).unwrap();
    }
    assert!(matches!(
        chunker.append(&mut keys, 1, i32::MAX, &cell),
        Ok((CellRef { chunk_key: 2, offset: 0 }, None))
    ));
}

#[test]
fn the_length_changes_only_between_chunks() {
    let (mut chunker, mut keys) = (chunker(3), keys());
    let cell = Tensor::scalar(1_u8);
    chunker.append(&mut keys, 1, 0, &cell).unwrap();
    let longer = ChunkLength::constant(5, 7).unwrap();
    assert_eq!(chunker.set_length(longer), Err(ChunkerError::Buffered { rows: 1 }));
    chunker.flush();
    assert_eq!(chunker.set_length(longer), Ok(()));
    assert_eq!((chunker.max_chunk_length(), chunker.num_keep_alive_refs()), (5, 7));
    let invalid = ChunkLength::Constant { max_chunk_length: 8, num_keep_alive_refs: 7 };
    assert!(matches!(chunker.set_length(invalid), Err(ChunkerError::Length { .. })));
    assert!(ColumnChunker::new(invalid, false).is_err());
}

/// Lengths of chunks while items of the newest five cells are written after every step, each cell being `cell_bytes` long
/// and each chunk `overhead` bytes more.
fn tuned_lengths(num_keep_alive_refs: u32, steps: i32, size_bytes: impl Fn(u64) -> u64) -> Vec<u32> {
    let length = ChunkLength::auto_tuned(num_keep_alive_refs, 1.0).expect("valid");
    let mut chunker = ColumnChunker::new(length, false).expect("valid");
    let (mut keys, mut refs, mut rows, mut lengths) = (keys(), Vec::new(), BTreeMap::new(), Vec::new());
    for step in 0..steps {
        let (cell_ref, cut) = chunker.append(&mut keys, 1, step, &Tensor::scalar(0_u8)).expect("valid");
        refs.push(cell_ref.chunk_key);
        let Some(cut) = cut else { continue };
        let length = cut.tensor.shape().rows().expect("has rows");
        lengths.push(length);
        rows.insert(cut.key, length);
        // Items whose newest cell lies in the chunk that was just cut are written now.
        for newest in refs.len() - usize::try_from(length).expect("small")..refs.len() {
            if newest >= 4 {
                let mut distinct = refs[newest - 4..=newest].to_vec();
                distinct.dedup();
                let statistic = |key: &u64| ChunkStatistic {
                    key: *key,
                    rows: rows[key],
                    size_bytes: size_bytes(u64::from(rows[key])),
                };
                let chunks: Vec<_> = distinct.iter().map(statistic).collect();
                chunker.record_item(5, &chunks);
            }
        }
    }
    lengths
}

#[test]
fn constant_data_makes_chunks_grow_as_observed() {
    // dm-reverb, constant float32[100], items of 5, keep 10: lengths 1,…,1,3,…,3,5,…
    let lengths = tuned_lengths(10, 200, |rows| 60 + 20 * rows);
    let mut seen = lengths.clone();
    seen.dedup();
    assert_eq!(seen[..3], [1, 3, 5], "{lengths:?}");
    // Four cells before the first item, then ten items to a score.
    assert_eq!(lengths.iter().take_while(|&&length| length == 1).count(), 14);
    assert!(lengths.iter().all(|&length| length <= 10));
}

#[test]
fn incompressible_data_keeps_chunks_short() {
    // Every row costs the same however it is chunked, so whatever an item does not need is a loss.
    let lengths = tuned_lengths(10, 2000, |rows| 1000 * rows);
    let tail = &lengths[lengths.len() / 2..];
    assert!(tail.iter().all(|&length| length <= 3), "{tail:?}");
}

#[test]
fn the_length_never_leaves_its_bounds() {
    assert!(tuned_lengths(1, 100, |_| 50).iter().all(|&length| length == 1));
    assert!(tuned_lengths(4, 500, |_| 50).iter().all(|&length| (1..=4).contains(&length)));
}

/// Feeds a whole score of chunks of `rows` rows and `size_bytes` bytes.
fn score(tuner: &mut AutoTuner, next_key: &mut u64, rows: u32, size_bytes: u64) -> u32 {
    for _ in 0..10 {
        *next_key += 1;
        tuner.record_item(rows, &[ChunkStatistic { key: *next_key, rows, size_bytes }]);
    }
    tuner.max_chunk_length()
}

#[test]
fn the_tuner_follows_its_rules() {
    let (mut tuner, mut key) = (AutoTuner::new(8, 1.0), 0);
    // The first score is only remembered: longer chunks are tried. Cost: 100 + 100 a step.
    assert_eq!(score(&mut tuner, &mut key, 1, 100), 3);
    // Too far from the wanted length: ignored.
    assert_eq!(score(&mut tuner, &mut key, 1, 10), 3);
    // Longer and better (2 · 90): on.
    assert_eq!(score(&mut tuner, &mut key, 3, 270), 5);
    // Longer and worse (2 · 95): back.
    assert_eq!(score(&mut tuner, &mut key, 5, 475), 4);
    // Shorter and better (2 · 92): back further. Compared with the last score, not with the best.
    assert_eq!(score(&mut tuner, &mut key, 4, 368), 3);
    // Shorter and worse (2 · 93): on to longer ones.
    assert_eq!(score(&mut tuner, &mut key, 3, 279), 5);
    // Longer and better, up to the limit.
    assert_eq!(score(&mut tuner, &mut key, 5, 450), 7);
    assert_eq!(score(&mut tuner, &mut key, 7, 560), 8);
}

#[test]
fn an_unchanged_length_keeps_the_old_score() {
    let (mut tuner, mut key) = (AutoTuner::new(1, 1.0), 0);
    assert_eq!(score(&mut tuner, &mut key, 1, 100), 1);
    for size_bytes in [50, 200, 100] {
        assert_eq!(score(&mut tuner, &mut key, 1, size_bytes), 1);
    }
}

#[test]
fn the_same_chunk_counts_once() {
    let mut tuner = AutoTuner::new(8, 1.0);
    let chunk = |key| ChunkStatistic { key, rows: 1, size_bytes: 10 };
    // Many items, but only four distinct chunks: no score yet.
    (0..40).for_each(|i| tuner.record_item(1, &[chunk(i % 4)]));
    assert_eq!(tuner.max_chunk_length(), 1);
    tuner.record_item(1, &[chunk(4)]);
    assert_eq!(tuner.max_chunk_length(), 3);
    tuner.record_item(0, &[chunk(5)]);
    tuner.record_item(1, &[]);
    assert_eq!(tuner.max_chunk_length(), 3);
}
