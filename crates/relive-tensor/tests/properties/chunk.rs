//! Chunks: round trips with every type and codec, validation, damaged data, and the ledger.

use std::sync::Arc;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use relive_tensor::codec::BlockFault;
use relive_tensor::limits::{MAX_CHUNK_BYTES, MAX_CHUNK_COLUMNS, MAX_RANK};
use relive_tensor::{
    Chunk, ChunkError, ChunkFault, ChunkParts, ChunkTotals, Codec, CodecError, CodecSet, ColumnHeader, DType,
    Ledger, SequenceRange, Shape, Tensor, TensorError, encode_chunk,
};
use smallvec::{SmallVec, smallvec};

use crate::strategies::{batches, chunk, codecs, dtypes};

const RANGE: SequenceRange = SequenceRange { episode_id: 3, start: 0, end: 4, sparse: true };

fn parts(columns: SmallVec<[ColumnHeader; 1]>, frame: &[u8]) -> ChunkParts {
    ChunkParts { key: 7, range: RANGE, columns, delta_encoded: false, frame: frame.into(), verbatim: true }
}

fn column(dtype: DType, codec: Codec, shape: impl Into<Shape>, span: std::ops::Range<u32>) -> ColumnHeader {
    ColumnHeader { dtype, codec, shape: shape.into(), span }
}

/// Returns the fault for which a chunk with one column is refused.
fn refusal(header: ColumnHeader, frame: &[u8]) -> ChunkFault {
    let error = Chunk::new(parts(smallvec![header], frame)).expect_err("an invalid chunk");
    assert_eq!((error.key, error.column), (7, Some(0)));
    error.fault
}

proptest! {
    #[test]
    fn every_type_and_codec_round_trips(
        columns in vec(batches(), 1..4),
        codec in codecs(),
        delta: bool,
    ) {
        let chunk = chunk(5, &columns, delta, codec);
        prop_assert_eq!(chunk.num_columns(), columns.len());
        let sizes: u64 = columns.iter().map(Tensor::size_bytes).sum();
        prop_assert_eq!(chunk.uncompressed_size_bytes(), sizes);
        for (index, tensor) in columns.iter().enumerate() {
            prop_assert_eq!(chunk.rows(index), tensor.shape().rows());
            prop_assert_eq!(&chunk.decode_column(index).unwrap(), tensor);
            let len = usize::try_from(tensor.size_bytes()).unwrap();
            let mut place = vec![0xee; len];
            let into = chunk.decode_column_into(index, &mut place);
            match tensor.bytes() {
                Some(bytes) => prop_assert_eq!((into, &place), (Ok(()), &bytes.to_vec())),
                None => {
                    let refused = matches!(into.unwrap_err().fault, ChunkFault::Destination { .. });
                    prop_assert!(refused);
                }
            }
            prop_assert!(chunk.decode_column_into(index, &mut vec![0; len + 1]).is_err());
        }
    }

    #[test]
    fn recompressing_a_chunk_preserves_its_data(
        columns in vec(batches(), 1..4),
        from in codecs(),
        to in codecs(),
        delta: bool,
    ) {
        let chunk = chunk(5, &columns, delta, from);
        let again = chunk.recoded(to).unwrap();
        prop_assert_eq!((again.key(), again.range()), (chunk.key(), chunk.range()));
        prop_assert_eq!(again.is_delta_encoded(), delta);
        prop_assert!(CodecSet::NONE.with(to).with(Codec::Raw).includes(again.codecs()));
        prop_assert!(to != Codec::Snappy || CodecSet::REVERB.includes(again.codecs()));
        for (index, tensor) in columns.iter().enumerate() {
            prop_assert_eq!(&again.decode_column(index).unwrap(), tensor);
        }
        if from == to {
            prop_assert_eq!(&*again.frame(), &*chunk.frame());
        }
    }

    #[test]
    fn a_damaged_frame_is_refused_or_decodes_to_its_shape(
        tensor in batches(),
        codec in codecs(),
        delta: bool,
        changes in vec((any::<usize>(), any::<u8>()), 1..4),
    ) {
        let mut parts = encode_chunk(5, RANGE, &[tensor], delta, codec).unwrap();
        let len = parts.frame.len().max(1);
        for (place, change) in changes {
            if let Some(byte) = Arc::get_mut(&mut parts.frame).unwrap().get_mut(place % len) {
                *byte ^= change;
            }
        }
        if let Ok(chunk) = Chunk::new(parts) {
            check_consistent(&chunk)?;
        }
    }

    #[test]
    fn arbitrary_parts_never_panic(
        headers in vec((dtypes(), codecs(), vec(0..5_u32, 0..4), 0..40_u32, 0..40_u32), 0..3),
        frame in vec(any::<u8>(), 0..40),
        delta_encoded: bool,
    ) {
        let columns = headers
            .into_iter()
            .map(|(dtype, codec, dims, start, end)| column(dtype, codec, dims.as_slice(), start..end))
            .collect();
        if let Ok(chunk) = Chunk::new(ChunkParts { delta_encoded, ..parts(columns, &frame) }) {
            check_consistent(&chunk)?;
        }
    }
}

/// Checks that an accepted chunk decodes to tensors that match its headers, except for bytes that are not valid bools.
fn check_consistent(chunk: &Chunk) -> Result<(), TestCaseError> {
    let mut sizes = 0;
    for index in 0..chunk.num_columns() {
        let header = chunk.column(index).expect("below the number of columns");
        match chunk.decode_column(index) {
            Ok(tensor) => {
                prop_assert_eq!((tensor.dtype(), tensor.shape()), (header.dtype, &header.shape));
                sizes += tensor.size_bytes();
            }
            Err(ChunkError { fault: ChunkFault::Tensor(TensorError::BoolByte { .. }), .. }) => return Ok(()),
            Err(error) => prop_assert!(false, "{}", error),
        }
    }
    prop_assert_eq!(sizes, chunk.uncompressed_size_bytes());
    Ok(())
}

#[test]
fn string_payloads_match_the_spec() {
    let strings = Tensor::from_strings(["x", "yz", ""], [3]).unwrap();
    let empty = Tensor::from_slice::<f32>(&[], [0, 3]).unwrap();
    let chunk = chunk(1, &[strings, empty], false, Codec::Snappy);
    assert_eq!(chunk.payload(0).unwrap(), [1, 2, 0, b'x', b'y', b'z']);
    assert_eq!(chunk.payload(1).unwrap(), [0]);
    assert_eq!(chunk.frame(), [1, 2, 0, b'x', b'y', b'z', 0]);
    assert_eq!((chunk.size_bytes(), chunk.uncompressed_size_bytes()), (7, 75));
    assert_eq!(chunk.column(0).map(|c| c.codec), Some(Codec::Raw));
    assert!(!chunk.is_verbatim() && !chunk.is_delta_encoded());
}

#[test]
fn column_metadata_and_offsets_are_checked() {
    let whole = |columns, frame: &[u8]| {
        let error = Chunk::new(parts(columns, frame)).expect_err("an invalid chunk");
        assert_eq!((error.key, error.column), (7, None));
        error.fault
    };
    assert_eq!(whole(smallvec![], &[]), ChunkFault::NoColumns);
    let many =
        std::iter::repeat_n(column(DType::UInt8, Codec::Raw, [0], 0..0), MAX_CHUNK_COLUMNS + 1).collect();
    assert_eq!(whole(many, &[]), ChunkFault::TooManyColumns { columns: MAX_CHUNK_COLUMNS + 1 });
    let raw = |shape: &[u32], span| column(DType::UInt8, Codec::Raw, shape, span);
    assert_eq!(refusal(raw(&[], 0..1), &[0]), ChunkFault::Scalar);
    assert_eq!(refusal(raw(&[1; MAX_RANK + 1], 0..1), &[0]), ChunkFault::Rank { rank: MAX_RANK + 1 });
    assert_eq!(refusal(raw(&[2], 0..2), &[0]), ChunkFault::Span { start: 0, end: 2, frame: 1 });
    #[expect(clippy::reversed_empty_ranges, reason = "this is the mistake to be found")]
    let reversed = raw(&[0], 1..0);
    assert_eq!(refusal(reversed, &[0]), ChunkFault::Span { start: 1, end: 0, frame: 1 });
    let strings = column(DType::String, Codec::Snappy, [1], 0..1);
    assert_eq!(refusal(strings, &[0]), ChunkFault::CompressedStrings { codec: Codec::Snappy });
}

#[test]
fn false_sizes_are_refused_before_any_allocation() {
    let shapes = [vec![u32::MAX; 4], vec![1 << 31], vec![1 << 16, 1 << 15]];
    for shape in shapes {
        for codec in Codec::ALL {
            let fault = refusal(column(DType::UInt8, codec, shape.as_slice(), 0..1), &[0]);
            assert_eq!(fault, ChunkFault::Content { dtype: DType::UInt8, shape: shape.as_slice().into() });
        }
    }
    let strings = refusal(column(DType::String, Codec::Raw, [u32::MAX], 0..1), &[0]);
    let count = u64::from(u32::MAX);
    assert_eq!(strings, ChunkFault::Codec(CodecError::StringLength { element: 1, count }));
    let limit = usize::try_from(MAX_CHUNK_BYTES).unwrap();
    let just_fits = refusal(column(DType::UInt8, Codec::Raw, [0x7fff_ffff], 0..1), &[0]);
    let length = CodecError::Length { codec: Codec::Raw, expected: MAX_CHUNK_BYTES, found: 1 };
    assert_eq!((just_fits, limit), (ChunkFault::Codec(length), 0x7fff_ffff));
}

#[test]
fn corrupt_snappy_names_chunk_column_and_reason() {
    let good = column(DType::UInt8, Codec::Raw, [1], 0..1);
    let bad = column(DType::UInt8, Codec::Snappy, [5], 0..5);
    let error = Chunk::new(parts(smallvec![good, bad], &[5, 0, b'a', 1, 2])).unwrap_err();
    let broken = CodecError::Broken { codec: Codec::Snappy, at: 3, fault: BlockFault::Offset };
    assert_eq!(error, ChunkError { key: 7, column: Some(1), fault: ChunkFault::Codec(broken) });
    assert_eq!(
        error.to_string(),
        "chunk 7, column 1: snappy payload is corrupt at byte 3: a copy starts outside of the bytes decoded so far"
    );
}

#[test]
fn invalid_bool_bytes_are_found_when_decoding() {
    let chunk = Chunk::new(parts(smallvec![column(DType::Bool, Codec::Raw, [2], 0..2)], &[1, 3])).unwrap();
    let fault = ChunkFault::Tensor(TensorError::BoolByte { position: 1, value: 3 });
    let error = ChunkError { key: 7, column: Some(0), fault };
    assert_eq!(chunk.decode_column(0), Err(error.clone()));
    assert_eq!(chunk.decode_column_into(0, &mut [0; 2]), Err(error));
    assert_eq!(chunk.decode_column(1).unwrap_err().fault, ChunkFault::NoSuchColumn { columns: 1 });
}

#[test]
fn delta_coding_is_reversed_only_where_applied() {
    // As in dm-reverb, the chunk's flag is set regardless of the types of its columns.
    let columns = [
        Tensor::from_slice(&[1_i32, 5, 3, 4], [2, 2]).unwrap(),
        Tensor::from_slice(&[1_i32, 5], [2]).unwrap(),
        Tensor::from_slice(&[1.0_f32, 5.0, 3.0, 4.0], [2, 2]).unwrap(),
    ];
    let chunk = chunk(1, &columns, true, Codec::Raw);
    assert!(chunk.is_delta_encoded());
    assert_eq!(
        chunk.payload(0).unwrap(),
        Tensor::from_slice(&[1_i32, 5, 2, -1], [4]).unwrap().bytes().unwrap()
    );
    assert_eq!(chunk.payload(1).unwrap(), columns[1].bytes().unwrap());
    assert_eq!(chunk.payload(2).unwrap(), columns[2].bytes().unwrap());
    for (index, column) in columns.iter().enumerate() {
        assert_eq!(&chunk.decode_column(index).unwrap(), column);
    }
}

#[test]
fn the_ledger_counts_live_chunks() {
    let ledger = Arc::new(Ledger::default());
    let make = |bytes: usize| {
        let tensor =
            Tensor::new(DType::UInt8, [1, u32::try_from(bytes).unwrap()], Bytes::from(vec![0; bytes]));
        let parts = encode_chunk(1, RANGE, &[tensor.unwrap()], false, Codec::Snappy).unwrap();
        Chunk::new(parts).unwrap().with_ledger(Arc::clone(&ledger))
    };
    let (one, two) = (make(1000), Arc::new(make(500)));
    let both = ChunkTotals {
        chunks: 2,
        encoded_bytes: one.size_bytes() + two.size_bytes(),
        raw_bytes: 1500,
        spilled_bytes: 0,
        shared_bytes: 0,
    };
    assert_eq!(ledger.snapshot(), both);
    let again = Arc::clone(&two);
    drop(two);
    assert_eq!(ledger.snapshot(), both);
    drop(again);
    assert_eq!((ledger.snapshot().chunks, ledger.snapshot().raw_bytes), (1, 1000));
    let other = Arc::new(Ledger::default());
    let moved = one.with_ledger(Arc::clone(&other));
    assert_eq!((ledger.snapshot(), other.snapshot().chunks), (ChunkTotals::default(), 1));
    drop(moved);
    assert_eq!(other.snapshot(), ChunkTotals::default());
}

#[test]
fn incompressible_data_is_stored_uncompressed() {
    let noise: Vec<u8> = (0..100_u32).flat_map(|i| i.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
    let noise = Tensor::new(DType::UInt8, [1, 400], noise.into()).unwrap();
    let zeros = Tensor::new(DType::UInt8, [1, 400], vec![0; 400].into()).unwrap();
    for codec in [Codec::Lz4, Codec::Zstd] {
        let chunk = chunk(1, &[noise.clone(), zeros.clone()], false, codec);
        assert_eq!(
            chunk.columns().iter().map(|column| column.codec).collect::<Vec<_>>(),
            [Codec::Raw, codec]
        );
        assert_eq!(chunk.payload(0).as_deref(), noise.bytes().map(|bytes| &**bytes));
    }
}
