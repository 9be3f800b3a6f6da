//! Chunkers and the auto-tuner.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use relive_tensor::{
    AutoTuner, Chunk, ChunkLength, ChunkSink, ChunkStatistic, Chunker, ChunkerError, Codec, Cut, DType,
    Encoding, PlacedRows, Rows, SequenceRange, Shape, Tensor,
};

use crate::strategies::{dtypes, tensor_of};

/// Returns a chunker of one column.
fn chunker(max_chunk_length: u32) -> Chunker {
    chunker_of(1, ChunkLength::constant(max_chunk_length, 100).expect("valid"), false)
}

fn chunker_of(columns: usize, length: ChunkLength, delta: bool) -> Chunker {
    let mut chunker = Chunker::new(length, delta).expect("valid");
    (0..columns).for_each(|column| assert_eq!(chunker.add_column(), column));
    chunker
}

/// The output of a chunker.
#[derive(Default)]
struct ChunkerOutput {
    keys: u64,
    placed: Vec<PlacedRows>,
    chunks: BTreeMap<u64, (SequenceRange, Vec<Tensor>, Chunk)>,
    /// For each chunk, its key and the number of rows that had been placed when it was cut.
    cuts: Vec<(u64, usize)>,
}

impl ChunkSink for ChunkerOutput {
    fn new_key(&mut self) -> u64 {
        self.keys += 1;
        self.keys
    }

    fn place(&mut self, placed: PlacedRows) {
        self.placed.push(placed);
    }

    fn cut(&mut self, cut: &Cut<'_>) {
        let tensors = cut.columns().iter().map(|column| column.to_tensor().expect("valid")).collect();
        // Every encoding, including combinations of uncompressed columns with others.
        let ways = [Encoding::With(Codec::Snappy), Encoding::Stored, Encoding::Bare];
        let all_alike = self.keys.is_multiple_of(2);
        let chunk = usize::try_from(self.keys / 2).expect("few chunks");
        let turn = |column: usize| if all_alike { chunk } else { column };
        let how = |column| ways[turn(column) % ways.len()];
        let chunk = Chunk::new(cut.encode(how).expect("small")).expect("valid");
        self.cuts.push((cut.key(), self.placed.len()));
        assert!(self.chunks.insert(cut.key(), (cut.range(), tensors, chunk)).is_none());
    }
}

impl ChunkerOutput {
    /// Returns the row at a location, both as it was cut and as it is decoded.
    fn rows(&self, placed: &PlacedRows, row: u32) -> [Tensor; 2] {
        let (_, tensors, chunk) = &self.chunks[&placed.chunk_key];
        let index = placed.index as usize;
        let at = placed.offset + row;
        [tensors[index].clone(), chunk.decode_column(index).expect("valid")]
            .map(|tensor| tensor.rows(at..at + 1).and_then(|row| row.squeeze_leading()).expect("inside"))
    }
}

/// Appends one value to the only column.
fn append(
    chunker: &mut Chunker,
    output: &mut ChunkerOutput,
    episode: u64,
    step: i32,
    cell: &Tensor,
) -> Result<(), ChunkerError> {
    chunker.append(episode, step, &[(0, Rows::step(cell))], output)
}

fn append_rows(
    chunker: &mut Chunker,
    output: &mut ChunkerOutput,
    step: i32,
    rows: &Tensor,
) -> Result<(), ChunkerError> {
    chunker.append(1, step, &[(0, Rows::steps(rows).expect("rows"))], output)
}

fn cells() -> impl Strategy<Value = Vec<Tensor>> {
    (dtypes(), vec(0..3_u32, 0..3), 1..30_usize)
        .prop_flat_map(|(dtype, cell, count)| vec(tensor_of(dtype, Shape::from(cell.as_slice())), count))
}

proptest! {
    /// Columns with gaps, appended one step or several steps at a time, including partial steps.
    #[test]
    fn every_row_is_found_at_its_reported_position(
        columns in vec((cells(), any::<u8>()), 1..4),
        length in 1..6_u32,
        steps in vec((1..3_i32, any::<bool>(), 0..4_u32), 30),
        delta: bool,
    ) {
        let mut chunker = chunker_of(columns.len(), ChunkLength::constant(length, 6).unwrap(), delta);
        let (mut output, mut step, mut given) = (ChunkerOutput::default(), -1, Vec::new());
        let mut used = vec![0; columns.len()];
        for (at, (gap, flush, more)) in steps.into_iter().enumerate() {
            step += gap;
            // Which columns have a value at this step, and how many values each of them has.
            let left = |column: usize, used: &[usize]| columns[column].0.len() - used[column];
            let takes = |column: &usize| columns[*column].1 >> (at % 8) & 1 == 1 && left(*column, &used) > 0;
            let takers: Vec<usize> = (0..columns.len()).filter(takes).collect();
            let count = takers.iter().map(|&column| left(column, &used)).min().unwrap_or(0).min(more as usize + 1);
            let rows: Vec<Tensor> = takers
                .iter()
                .map(|&column| Tensor::stack(&columns[column].0[used[column]..used[column] + count]).unwrap())
                .collect();
            let cells: Vec<_> =
                takers.iter().zip(&rows).map(|(&column, rows)| (column, Rows::steps(rows).unwrap())).collect();
            let before = output.placed.len();
            if step % 2 == 0 {
                chunker.append(9, step, &cells, &mut output).unwrap();
            } else {
                // The values are appended in two parts; the second part belongs to the same step.
                let (some, others) = cells.split_at(cells.len() / 2);
                chunker.append(9, step, some, &mut output).unwrap();
                let first = others.first().map_or(step, |_| step + i32::try_from(if some.is_empty() { 0 } else { count - 1 }).unwrap());
                chunker.append(9, first, others, &mut output).unwrap();
                step = step.max(first);
            }
            for placed in &output.placed[before..] {
                let first = used[placed.column] + placed.first as usize;
                given.extend((0..placed.rows).map(|row| (*placed, row, first + row as usize)));
            }
            takers.iter().for_each(|&column| used[column] += count);
            step += i32::try_from(count.saturating_sub(1)).unwrap();
            if flush {
                chunker.flush(&mut output);
            }
            // Buffered rows can be read before their chunk is cut.
            let newest = output.placed.last().map(|placed| placed.chunk_key);
            if let Some(key) = newest.filter(|key| !output.chunks.contains_key(key)) {
                let waiting = given.iter().rev().filter(|(placed, _, _)| placed.chunk_key == key);
                for (placed, row, number) in waiting {
                    let at = placed.offset + row;
                    let tensor = chunker.pending_rows(key, placed.index, at, 1).unwrap().unwrap();
                    prop_assert_eq!(&tensor.squeeze_leading().unwrap(), &columns[placed.column].0[*number]);
                }
                prop_assert!(chunker.pending_rows(key + 1, 0, 0, 1).is_none());
                prop_assert!(chunker.pending_rows(key, 0, 0, 100).is_none());
            }
        }
        chunker.flush(&mut output);
        prop_assert!(output.placed.iter().all(|placed| output.chunks.contains_key(&placed.chunk_key)));
        for (placed, row, number) in &given {
            for found in output.rows(placed, *row) {
                prop_assert_eq!(&found, &columns[placed.column].0[*number]);
            }
        }
        let taken: usize = used.iter().sum();
        prop_assert_eq!(given.len(), taken, "each value has one place");
        for (_, tensors, chunk) in output.chunks.values() {
            prop_assert!(tensors.iter().all(|tensor| tensor.shape().rows().unwrap() <= length));
            prop_assert_eq!(chunk.num_columns(), tensors.len());
        }
    }

    #[test]
    fn appending_rows_together_equals_one_by_one(cells in cells(), length in 1..6_u32, splits in vec(1..5_usize, 30)) {
        let mut one_by_one = chunker_of(1, ChunkLength::constant(length, 6).unwrap(), false);
        let mut together = one_by_one.clone();
        let (mut expected, mut found, mut from) = (ChunkerOutput::default(), ChunkerOutput::default(), 0);
        for split in splits {
            let some = &cells[from..cells.len().min(from + split)];
            let step = |at: usize| i32::try_from(from + at).unwrap();
            for (at, cell) in some.iter().enumerate() {
                append(&mut one_by_one, &mut expected, 1, step(at), cell).unwrap();
            }
            if !some.is_empty() {
                append_rows(&mut together, &mut found, step(0), &Tensor::stack(some).unwrap()).unwrap();
            }
            from += some.len();
            prop_assert_eq!(one_by_one.buffered_rows(0), together.buffered_rows(0));
        }
        one_by_one.flush(&mut expected);
        together.flush(&mut found);
        let content = |output: &ChunkerOutput| -> Vec<_> {
            output.chunks.iter().map(|(key, (range, tensors, _))| (*key, *range, tensors.clone())).collect()
        };
        prop_assert_eq!(content(&expected), content(&found));
    }
}

#[test]
fn values_of_a_step_are_contiguous() {
    let mut chunker = chunker_of(3, ChunkLength::constant(2, 4).unwrap(), false);
    let (mut output, values) =
        (ChunkerOutput::default(), [Tensor::scalar(1_u8), Tensor::scalar(2_i64), Tensor::scalar(0.5_f32)]);
    for step in 0..2 {
        let cells: Vec<_> =
            values.iter().enumerate().map(|(column, value)| (column, Rows::step(value))).collect();
        chunker.append(1, step, &cells, &mut output).unwrap();
    }
    let (range, tensors, _) = &output.chunks[&1];
    assert_eq!((range.start, range.end, range.sparse), (0, 1, false));
    assert_eq!(
        tensors.iter().map(Tensor::dtype).collect::<Vec<_>>(),
        [DType::UInt8, DType::Int64, DType::Float32]
    );
    assert_eq!(
        output.placed.iter().map(|placed| (placed.index, placed.offset)).collect::<Vec<_>>(),
        [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)]
    );
}

#[test]
fn a_column_without_a_value_makes_its_chunk_sparse() {
    let mut chunker = chunker_of(2, ChunkLength::constant(2, 4).unwrap(), false);
    let (mut output, one) = (ChunkerOutput::default(), Tensor::scalar(1_u8));
    chunker.append(1, 0, &[(1, Rows::step(&one))], &mut output).unwrap();
    chunker.append(1, 1, &[(0, Rows::step(&one)), (1, Rows::step(&one))], &mut output).unwrap();
    let (range, tensors, _) = &output.chunks[&1];
    assert!(range.sparse);
    assert_eq!(tensors.iter().map(|tensor| tensor.shape().rows()).collect::<Vec<_>>(), [Some(2), Some(1)]);
    assert_eq!(
        output.placed.iter().map(|placed| (placed.column, placed.index)).collect::<Vec<_>>(),
        [(1, 0), (0, 1), (1, 0)]
    );
}

#[test]
fn refused_rows_change_nothing() {
    let (mut chunker, mut output) = (chunker(3), ChunkerOutput::default());
    let rows = Tensor::from_slice(&[1_u8, 2], [2]).unwrap();
    assert!(Rows::steps(&Tensor::scalar(1_u8)).is_none());
    let too_far = append_rows(&mut chunker, &mut output, i32::MAX, &rows);
    assert_eq!(too_far, Err(ChunkerError::Steps { first: i32::MAX, rows: 2 }));
    append_rows(&mut chunker, &mut output, 0, &rows).unwrap();
    let again = append_rows(&mut chunker, &mut output, 1, &rows);
    assert_eq!(again, Err(ChunkerError::Step { last: 1, given: 1 }));
    let other = Tensor::from_slice(&[1_u8, 2], [2, 1]).unwrap();
    assert!(matches!(append_rows(&mut chunker, &mut output, 2, &other), Err(ChunkerError::Cell { .. })));
    let unknown = chunker.append(1, 2, &[(1, Rows::step(&rows))], &mut output);
    assert_eq!(unknown, Err(ChunkerError::NoSuchColumn { column: 1, columns: 1 }));
    append_rows(&mut chunker, &mut output, 2, &rows.rows(0..0).unwrap()).unwrap();
    assert_eq!((chunker.buffered_rows(0), output.placed.len()), (2, 1));
    let mut two = chunker_of(2, ChunkLength::constant(1, 1).unwrap(), false);
    let uneven = [(0, Rows::steps(&rows).unwrap()), (1, Rows::step(&rows))];
    assert_eq!(two.append(1, 0, &uneven, &mut output), Err(ChunkerError::Rows { expected: 2, got: 1 }));
}

#[test]
fn bytes_are_viewed_as_rows_only_if_they_fit() {
    let bytes = [1, 0, 2, 0];
    let rows = Rows::of_bytes(DType::UInt16, &[], 2, &bytes).unwrap();
    let (mut chunker, mut output) = (chunker(2), ChunkerOutput::default());
    chunker.append(1, 0, &[(0, rows)], &mut output).unwrap();
    assert_eq!(output.chunks[&1].1[0], Tensor::from_slice(&[1_u16, 2], [2]).unwrap());
    assert!(Rows::of_bytes(DType::UInt16, &[2], 2, &bytes).is_err());
    assert!(Rows::of_bytes(DType::Bool, &[], 4, &bytes).is_err());
    assert!(Rows::of_bytes(DType::String, &[], 4, &bytes).is_err());
}

#[test]
fn the_first_cell_fixes_type_and_shape() {
    let (mut chunker, mut output) = (chunker(1), ChunkerOutput::default());
    append(&mut chunker, &mut output, 1, 0, &Tensor::from_slice(&[1_i32, 2], [2]).unwrap()).unwrap();
    let wrong = Tensor::from_slice(&[1_i32, 2, 3], [3]).unwrap();
    let error = append(&mut chunker, &mut output, 1, 1, &wrong).unwrap_err();
    assert_eq!(error.to_string(), "the column holds int32[2], got int32[3]");
    let wrong = Tensor::from_slice(&[1_i64, 2], [2]).unwrap();
    let error = append(&mut chunker, &mut output, 1, 1, &wrong).unwrap_err();
    assert_eq!(error.to_string(), "the column holds int32[2], got int64[2]");
    let deep = Tensor::from_slice(&[1_i32], Shape::from_iter([1; 254])).unwrap();
    assert_eq!(append(&mut chunker, &mut output, 1, 1, &deep), Err(ChunkerError::Rank { rank: 254 }));
}

#[test]
fn steps_increase_within_an_episode() {
    let (mut chunker, mut output) = (chunker(3), ChunkerOutput::default());
    let cell = Tensor::scalar(1_u8);
    append(&mut chunker, &mut output, 1, 5, &cell).unwrap();
    let step = |given| Err(ChunkerError::Step { last: 5, given });
    assert_eq!(append(&mut chunker, &mut output, 1, 5, &cell), step(5));
    assert_eq!(append(&mut chunker, &mut output, 1, 4, &cell), step(4));
    let episode = Err(ChunkerError::Episode { buffered: 1, given: 2 });
    assert_eq!(append(&mut chunker, &mut output, 2, 6, &cell), episode);
    assert_eq!(chunker.buffered_rows(0), 1);
    chunker.flush(&mut output);
    assert_eq!((output.chunks[&1].0.start, output.chunks[&1].0.end), (5, 5));
    // If nothing is buffered, any step may follow.
    append(&mut chunker, &mut output, 2, 0, &cell).unwrap();
    assert_eq!(chunker.buffered_rows(0), 1);
}

#[test]
fn steps_may_reach_the_ends_of_their_range() {
    let (mut chunker, mut output) = (chunker(3), ChunkerOutput::default());
    let cell = Tensor::scalar(1_u8);
    for step in [i32::MIN, i32::MAX - 1, i32::MAX] {
        append(&mut chunker, &mut output, 1, step, &cell).unwrap();
    }
    assert_eq!(output.cuts, [(1, 3)]);
    append(&mut chunker, &mut output, 1, i32::MAX, &cell).unwrap();
    assert_eq!(chunker.buffered_rows(0), 1);
}

#[test]
fn invalid_chunk_lengths_are_refused() {
    let invalid = ChunkLength::Constant { max_chunk_length: 8, num_keep_alive_refs: 7 };
    assert!(matches!(Chunker::new(invalid, false), Err(ChunkerError::Length { .. })));
}

/// Returns the chunk lengths if an item of the newest five cells is written after every step. Each cell has
/// `cell_bytes` bytes, and each chunk `overhead` additional bytes.
fn tuned_lengths(num_keep_alive_refs: u32, steps: i32, size_bytes: impl Fn(u64) -> u64) -> Vec<u32> {
    let length = ChunkLength::auto_tuned(num_keep_alive_refs, 1.0).expect("valid");
    let mut chunker = chunker_of(1, length, false);
    let (mut output, mut refs, mut rows, mut lengths) =
        (ChunkerOutput::default(), Vec::new(), BTreeMap::new(), Vec::new());
    for step in 0..steps {
        append(&mut chunker, &mut output, 1, step, &Tensor::scalar(0_u8)).expect("valid");
        refs.push(output.placed.last().expect("placed").chunk_key);
        let Some((key, _)) = output.cuts.pop() else { continue };
        let length = output.chunks[&key].1[0].shape().rows().expect("has rows");
        lengths.push(length);
        rows.insert(key, length);
        // Items whose newest cell is in the chunk that was just cut are written now.
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
    let mut output = lengths.clone();
    output.dedup();
    assert_eq!(output[..3], [1, 3, 5], "{lengths:?}");
    // Four cells before the first item, then ten items per score.
    assert_eq!(lengths.iter().take_while(|&&length| length == 1).count(), 14);
    assert!(lengths.iter().all(|&length| length <= 10));
}

#[test]
fn incompressible_data_keeps_chunks_short() {
    // Every row costs the same regardless of the chunk length, so every row that an item does not need is a loss.
    let lengths = tuned_lengths(10, 2000, |rows| 1000 * rows);
    let tail = &lengths[lengths.len() / 2..];
    assert!(tail.iter().all(|&length| length <= 3), "{tail:?}");
}

#[test]
fn the_length_never_leaves_its_bounds() {
    assert!(tuned_lengths(1, 100, |_| 50).iter().all(|&length| length == 1));
    assert!(tuned_lengths(4, 500, |_| 50).iter().all(|&length| (1..=4).contains(&length)));
}

/// Records as many chunks of `rows` rows and `size_bytes` bytes as one score requires.
fn score(tuner: &mut AutoTuner, next_key: &mut u64, rows: u32, size_bytes: u64) -> u32 {
    for _ in 0..10 {
        *next_key += 1;
        tuner.record_item(rows, &[ChunkStatistic { key: *next_key, rows, size_bytes }]);
    }
    tuner.max_chunk_length()
}

#[test]
fn the_auto_tuner_follows_its_rules() {
    let (mut tuner, mut key) = (AutoTuner::new(8, 1.0), 0);
    // The first score has nothing to be compared with, so longer chunks are tried. The cost is 100 + 100 per step.
    assert_eq!(score(&mut tuner, &mut key, 1, 100), 3);
    // This score is too far from the current length, so it is ignored.
    assert_eq!(score(&mut tuner, &mut key, 1, 10), 3);
    // Longer chunks were better (2 · 90), so the length grows further.
    assert_eq!(score(&mut tuner, &mut key, 3, 270), 5);
    // Longer chunks were worse (2 · 95), so the length shrinks.
    assert_eq!(score(&mut tuner, &mut key, 5, 475), 4);
    // Shorter chunks were better (2 · 92), so the length shrinks further. The comparison is with the last score, not
    // with the best.
    assert_eq!(score(&mut tuner, &mut key, 4, 368), 3);
    // Shorter chunks were worse (2 · 93), so the length grows.
    assert_eq!(score(&mut tuner, &mut key, 3, 279), 5);
    // Longer chunks were better, so the length grows up to the limit.
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
    // There are many items, but only four distinct chunks, so there is no score yet.
    (0..40).for_each(|i| tuner.record_item(1, &[chunk(i % 4)]));
    assert_eq!(tuner.max_chunk_length(), 1);
    tuner.record_item(1, &[chunk(4)]);
    assert_eq!(tuner.max_chunk_length(), 3);
    tuner.record_item(0, &[chunk(5)]);
    tuner.record_item(1, &[]);
    assert_eq!(tuner.max_chunk_length(), 3);
}
