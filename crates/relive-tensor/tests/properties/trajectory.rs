//! Compares trajectories with a naive concatenation, and tests every reason for refusal.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use relive_tensor::{
    Chunk, Codec, DType, Shape, Slice, Tensor, Trajectory, TrajectoryBuilder, TrajectoryError,
};

use crate::strategies::{chunk, codecs, dtypes, tensor_of};

/// The requested slices of a column, to be clamped to the rows of the chunks, and whether to squeeze the column.
type RequestedSlices = (Vec<(usize, u32, u32)>, bool);

/// Returns tensors of one type and row shape but differing numbers of rows.
fn sources() -> impl Strategy<Value = Vec<Tensor>> {
    (dtypes(), vec(0..3_u32, 0..3), vec(1..6_u32, 1..5)).prop_flat_map(|(dtype, cell, rows)| {
        rows.into_iter().map(|rows| tensor_of(dtype, Shape::batched(rows, &cell))).collect::<Vec<_>>()
    })
}

/// Returns a trajectory over the sources, and the tensors that it must decode to.
fn trajectory(
    sources: &[Tensor],
    per_chunk: usize,
    codec: Codec,
    requests: &[RequestedSlices],
) -> (Trajectory, Vec<Tensor>) {
    let chunks: Vec<_> =
        (10..).zip(sources.chunks(per_chunk)).map(|(key, t)| chunk(key, t, true, codec)).collect();
    let mut builder = TrajectoryBuilder::new();
    let mut expected = Vec::new();
    for (request, squeeze) in requests {
        let mut parts = Vec::new();
        builder.begin_column(*squeeze);
        for &(source, offset, length) in request.iter().take(if *squeeze { 1 } else { usize::MAX }) {
            let source = source % sources.len();
            let rows = sources[source].shape().rows().expect("sources have rows");
            let offset = offset % rows;
            let length = if *squeeze { 1 } else { 1 + length % (rows - offset) };
            let chunk = builder.chunk(Arc::clone(&chunks[source / per_chunk]));
            let index = u32::try_from(source % per_chunk).expect("few columns");
            builder.slice(Slice { chunk, offset, length, index });
            parts.push(sources[source].rows(offset..offset + length).expect("inside the rows"));
        }
        let rows = Tensor::concat(&parts).expect("parts agree");
        expected.push(if *squeeze { rows.squeeze_leading().expect("one row") } else { rows });
    }
    (builder.build().expect("all slices are there"), expected)
}

proptest! {
    #[test]
    fn decoding_is_the_concatenation_of_the_slices(
        sources in sources(),
        per_chunk in 1..4_usize,
        codec in codecs(),
        requests in vec((vec((any::<usize>(), any::<u32>(), any::<u32>()), 1..6), any::<bool>()), 1..4),
    ) {
        let (trajectory, expected) = trajectory(&sources, per_chunk, codec, &requests);
        prop_assert_eq!(&trajectory.decode().unwrap(), &expected);
        prop_assert_eq!(trajectory.num_columns(), expected.len());
        for (index, (column, tensor)) in trajectory.columns().zip(&expected).enumerate() {
            prop_assert_eq!(&trajectory.decode_column(index).unwrap(), tensor);
            prop_assert_eq!((column.dtype(), &column.shape()), (tensor.dtype(), tensor.shape()));
        }
        let mut keys: Vec<_> = trajectory.chunks().iter().map(|chunk| chunk.key()).collect();
        let distinct = keys.len();
        keys.sort_unstable();
        keys.dedup();
        prop_assert_eq!(keys.len(), distinct);
        let size: u64 = trajectory.chunks().iter().map(|chunk| chunk.size_bytes()).sum();
        prop_assert_eq!(trajectory.encoded_size_bytes(), size);
    }

    #[test]
    fn arbitrary_slices_never_panic(
        slices in vec((0..3_u32, 0..5_u32, 0..5_u32, 0..3_u32), 0..4),
        squeeze: bool,
    ) {
        let mut builder = TrajectoryBuilder::new();
        builder.chunk(numbers(1, 3));
        builder.chunk(numbers(2, 1));
        builder.begin_column(squeeze);
        slices.iter().for_each(|&(chunk, offset, length, index)| builder.slice(slice(chunk, offset, length, index)));
        let rows = |chunk: u32| [3, 1].get(chunk as usize).copied().unwrap_or(0);
        let inside = |&(c, o, l, i): &(u32, u32, u32, u32)| l > 0 && i == 0 && o + l <= rows(c);
        let total: u32 = slices.iter().map(|slice| slice.2).sum();
        let valid = !slices.is_empty() && slices.iter().all(inside) && (!squeeze || total == 1);
        let built = builder.build().ok();
        prop_assert_eq!(built.is_some(), valid);
        if let Some(trajectory) = built {
            let expected: Vec<i32> = slices.iter().flat_map(|&(_, offset, length, _)| offset..offset + length).map(u32::cast_signed).collect();
            prop_assert_eq!(trajectory.decode().unwrap()[0].to_vec::<i32>().unwrap(), expected);
        }
    }
}

/// Returns a chunk of consecutive numbers, starting at 0.
fn numbers(key: u64, rows: i32) -> Arc<Chunk> {
    let values: Vec<_> = (0..rows).collect();
    let tensor = Tensor::from_slice(&values, [u32::try_from(rows).expect("not negative")]).expect("as many");
    chunk(key, &[tensor], false, Codec::Snappy)
}

fn slice(chunk: u32, offset: u32, length: u32, index: u32) -> Slice {
    Slice { chunk, offset, length, index }
}

/// Returns the error for one column of the given slices over a chunk with three rows and key 5.
fn refusal(squeeze: bool, slices: &[Slice]) -> TrajectoryError {
    let mut builder = TrajectoryBuilder::new();
    builder.chunk(numbers(5, 3));
    builder.begin_column(squeeze);
    slices.iter().for_each(|slice| builder.slice(*slice));
    builder.build().expect_err("an invalid column")
}

#[test]
fn slices_must_lie_in_their_chunks() {
    let rows = |offset, length| TrajectoryError::Rows { column: 0, chunk_key: 5, offset, length, rows: 3 };
    assert_eq!(refusal(false, &[slice(0, 0, 0, 0)]), rows(0, 0));
    assert_eq!(refusal(false, &[slice(0, 1, 3, 0)]), rows(1, 3));
    assert_eq!(refusal(false, &[slice(0, 3, 1, 0)]), rows(3, 1));
    let wide = u32::MAX;
    assert_eq!(refusal(false, &[slice(0, wide, wide, 0)]), rows(wide.into(), wide.into()));
    let index = TrajectoryError::Index { column: 0, chunk_key: 5, index: 1, tensors: 1 };
    assert_eq!(refusal(false, &[slice(0, 0, 1, 1)]), index);
    let unknown = TrajectoryError::UnknownChunk { column: 0, chunk: 1, chunks: 1 };
    assert_eq!(refusal(false, &[slice(1, 0, 1, 0)]), unknown);
    assert_eq!(rows(1, 3).to_string(), "column 0 needs 3 rows from row 1 of chunk 5, which has 3 rows");
}

#[test]
fn columns_must_have_rows() {
    assert_eq!(TrajectoryBuilder::new().build().unwrap_err(), TrajectoryError::NoColumns);
    assert_eq!(refusal(false, &[]), TrajectoryError::EmptyColumn { column: 0 });
    let mut builder = TrajectoryBuilder::default();
    let chunk = builder.chunk(numbers(5, 3));
    builder.slice(slice(chunk, 0, 3, 0));
    builder.begin_column(false);
    assert_eq!(builder.build().unwrap_err(), TrajectoryError::EmptyColumn { column: 1 });
}

#[test]
fn only_one_row_can_be_squeezed() {
    assert_eq!(refusal(true, &[slice(0, 0, 2, 0)]), TrajectoryError::Squeeze { column: 0, rows: 2 });
    let twice = [slice(0, 0, 1, 0), slice(0, 0, 1, 0)];
    assert_eq!(refusal(true, &twice), TrajectoryError::Squeeze { column: 0, rows: 2 });
}

#[test]
fn slices_of_a_column_agree() {
    let column = |other: Tensor| {
        let mut builder = TrajectoryBuilder::new();
        let first = builder.chunk(numbers(5, 3));
        let second = builder.chunk(chunk(6, &[other], false, Codec::Snappy));
        builder.begin_column(false);
        builder.slice(slice(first, 0, 1, 0));
        builder.slice(slice(second, 0, 1, 0));
        builder.build().expect_err("slices that differ")
    };
    let mixed = |dtype, shape| TrajectoryError::Mixed {
        column: 0,
        chunk_key: 6,
        first_dtype: DType::Int32,
        first_shape: Shape::scalar(),
        dtype,
        shape,
    };
    let unsigned = Tensor::from_slice(&[1_u32], [1]).unwrap();
    assert_eq!(column(unsigned), mixed(DType::UInt32, Shape::scalar()));
    let deeper = Tensor::from_slice(&[1_i32], [1, 1]).unwrap();
    assert_eq!(column(deeper), mixed(DType::Int32, Shape::from([1])));
}

#[test]
fn a_column_that_would_decode_to_petabytes_is_refused() {
    let big = Tensor::new(DType::UInt8, [1, 1 << 20], vec![0; 1 << 20].into()).unwrap();
    let mut builder = TrajectoryBuilder::new();
    let number = builder.chunk(chunk(5, &[big], false, Codec::Snappy));
    builder.begin_column(false);
    let rows = (1_u64 << 15) + 1;
    (0..rows).for_each(|_| builder.slice(slice(number, 0, 1, 0)));
    assert_eq!(builder.build().unwrap_err(), TrajectoryError::TooLarge { column: 0, rows });
}

#[test]
fn chunks_are_numbered_by_first_appearance_however_many_there_are() {
    let mut builder = TrajectoryBuilder::new();
    let chunks: Vec<_> = (0..100).map(|i| numbers(1000 - i, 1)).collect();
    for round in 0..2 {
        for (number, chunk) in (0..).zip(&chunks) {
            assert_eq!(builder.chunk(Arc::clone(chunk)), number, "round {round}");
            builder.begin_column(true);
            builder.slice(slice(number, 0, 1, 0));
        }
    }
    let trajectory = builder.build().unwrap();
    assert_eq!((trajectory.chunks().len(), trajectory.num_columns()), (100, 200));
    assert!(trajectory.decode().unwrap().iter().all(|tensor| *tensor == Tensor::scalar(0)));
    let missing = TrajectoryError::NoSuchColumn { column: 200, columns: 200 };
    assert_eq!(trajectory.decode_column(200), Err(missing));
}

#[test]
fn invalid_bools_are_traced_to_column_and_chunk() {
    let header = relive_tensor::ColumnHeader {
        dtype: DType::Bool,
        codec: Codec::Raw,
        shape: Shape::from([1]),
        span: 0..1,
    };
    let range = relive_tensor::SequenceRange { episode_id: 1, start: 0, end: 0, sparse: false };
    let parts = relive_tensor::ChunkParts {
        key: 77,
        range,
        columns: smallvec::smallvec![header],
        delta_encoded: false,
        frame: Arc::new([9]),
        verbatim: false,
    };
    let bad = Arc::new(Chunk::new(parts).unwrap());
    let good = chunk(78, &[Tensor::from_bools(&[true], [1]).unwrap()], false, Codec::Raw);
    let mut builder = TrajectoryBuilder::new();
    let (bad, good) = (builder.chunk(bad), builder.chunk(good));
    builder.begin_column(false);
    builder.slice(slice(good, 0, 1, 0));
    builder.begin_column(false);
    builder.slice(slice(good, 0, 1, 0));
    builder.slice(slice(bad, 0, 1, 0));
    let error = builder.build().unwrap().decode().unwrap_err();
    assert_eq!(
        error.to_string(),
        "column 1: chunk 77, column 0: byte 0 of a bool tensor is 9, but it must be 0 or 1"
    );
}
