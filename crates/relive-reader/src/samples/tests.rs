//! Tests that invalid samples, and samples that were damaged in transit, cause errors that state the fault, and never a
//! panic or wrong data.

use proptest::prelude::*;
use relive_tensor::{Chunk, Codec, SequenceRange, Tensor, encode_chunk};
use relive_wire::Message;
use relive_wire::reverb::flat_trajectory::{ChunkSlice, Column};
use relive_wire::reverb::sample_stream_response::SampleEntry;
use relive_wire::reverb::{ChunkData, FlatTrajectory, PrioritizedItem, SampleInfo, SampleStreamResponse};
use relive_wire::sample::Assembler;

use super::SampleBatch;
use crate::samples::Sample;
use relive_connection::ErrorKind;

/// Returns the message of chunk `key`, which has four rows of two numbers.
fn chunk(key: u64) -> ChunkData {
    let rows = Tensor::from_slice(&[1_i16, 2, 3, 4, 5, 6, 7, 8], [4, 2]).unwrap();
    let range = SequenceRange { episode_id: 1, start: 0, end: 3, sparse: false };
    let chunk = Chunk::new(encode_chunk(key, range, &[rows], false, Codec::Snappy).unwrap()).unwrap();
    ChunkData::decode(relive_wire::chunk::encode(&chunk)).unwrap()
}

fn slice(chunk_key: u64, offset: i32, length: i32) -> ChunkSlice {
    ChunkSlice { chunk_key, offset, length, index: 0 }
}

fn response(columns: Vec<Column>, chunks: &[ChunkData]) -> Vec<u8> {
    let flat_trajectory = Some(FlatTrajectory { columns });
    let item =
        PrioritizedItem { key: 9, table: "t".to_owned(), flat_trajectory, ..PrioritizedItem::default() };
    let info = Some(SampleInfo { item: Some(item), ..SampleInfo::default() });
    let data = chunks.iter().map(|chunk| chunk.encode_to_vec().into()).collect();
    let entries = vec![SampleEntry { info, data, end_of_sequence: true }];
    SampleStreamResponse { entries, ..SampleStreamResponse::default() }.encode_to_vec()
}

fn samples(message: Vec<u8>) -> Vec<Sample> {
    let mut received = Vec::new();
    // Samples before the damage are still delivered.
    let _ = Assembler::default().push(&message.into(), &mut received);
    received.into_iter().map(Sample::received).collect()
}

fn batch_of(slices: Vec<ChunkSlice>, squeeze: bool, chunks: &[ChunkData]) -> SampleBatch {
    SampleBatch::new(samples(response(vec![Column { chunk_slices: slices, squeeze }], chunks)))
}

#[test]
fn a_valid_sample_is_gathered() {
    let batch = batch_of(vec![slice(1, 1, 2), slice(2, 3, 1)], false, &[chunk(1), chunk(2)]);
    let mut out = [0; 12];
    batch.gather_into(0, &mut out).unwrap();
    assert_eq!(out, [3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 8, 0]);
}

#[test]
fn inconsistent_trajectories_are_refused_with_the_reason() {
    for (slices, squeeze, reason) in [
        (vec![slice(1, 3, 2)], false, "needs 2 rows from row 3 of chunk 1, which has 4 rows"),
        (vec![slice(1, 0, 0)], false, "needs 0 rows"),
        (vec![slice(1, i32::MAX, i32::MAX)], false, "which has 4 rows"),
        (vec![slice(1, -1, 2)], false, "negative offset (-1)"),
        (vec![slice(1, 0, -2)], false, "negative length (-2)"),
        (vec![slice(7, 0, 1)], false, "chunk 7"),
        (vec![ChunkSlice { index: 1, ..slice(1, 0, 1) }], false, "tensor 1 of chunk 1, which has 1"),
        (vec![slice(1, 0, 2)], true, "is squeezed but has 2 rows"),
        (vec![], false, "no trajectory"),
    ] {
        let error = batch_of(slices, squeeze, &[chunk(1)]).columns().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DataLoss, "{error}");
        assert!(error.to_string().contains("item 9"), "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    }
    let empty = vec![Column { chunk_slices: vec![slice(1, 0, 1)], squeeze: false }, Column::default()];
    let error = SampleBatch::new(samples(response(empty, &[chunk(1)]))).columns().unwrap_err();
    assert!(error.to_string().contains("column 1 has no slices"), "{error}");
}

#[test]
fn a_few_bytes_cannot_allocate_gigabytes() {
    let mut lying = chunk(1);
    lying.data.as_mut().unwrap().tensors[0].tensor_shape.as_mut().unwrap().dim[0].size = 1 << 28;
    let error = batch_of(vec![slice(1, 0, 1 << 28)], false, &[lying]).columns().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DataLoss);
    assert!(error.to_string().contains("chunk 1"), "{error}");
}

#[test]
fn a_corrupt_payload_is_detected_when_columns_are_decoded() {
    let mut broken = chunk(1);
    let tensor = &mut broken.data.as_mut().unwrap().tensors[0];
    let mut content = tensor.tensor_content.to_vec();
    // The length is unchanged, and the first element becomes a copy of bytes that do not exist.
    content[1] = 0xfe;
    tensor.tensor_content = content.into();
    let batch = batch_of(vec![slice(1, 0, 4)], false, &[broken]);
    for error in [batch.columns().unwrap_err(), batch.gather_into(0, &mut [0; 16]).unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::DataLoss);
        assert!(error.to_string().contains("snappy"), "{error}");
    }
}

#[test]
fn individually_listed_strings_are_decoded() {
    let mut listed = chunk(1);
    let tensor = &mut listed.data.as_mut().unwrap().tensors[0];
    tensor.dtype = 7;
    tensor.tensor_content = Vec::new().into();
    tensor.string_val = (0..8).map(|i| vec![b'a' + i].into()).collect();
    let batch = batch_of(vec![slice(1, 1, 2)], false, &[listed]);
    assert_eq!(batch.strings(0).unwrap(), ["c", "d", "e", "f"]);
    assert_eq!(batch.samples()[0].columns().unwrap()[0].strings().unwrap(), ["c", "d", "e", "f"]);
}

proptest! {
    #[test]
    fn damage_is_an_error_or_harmless(
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        copies in 1..3_usize,
    ) {
        let columns = vec![
            Column { chunk_slices: vec![slice(1, 1, 2), slice(2, 0, 4)], squeeze: false },
            Column { chunk_slices: vec![slice(1, 3, 1)], squeeze: true },
        ];
        let mut message = response(columns, &[chunk(1), chunk(2)]);
        for (at, value) in flips {
            let at = at.index(message.len());
            message[at] ^= value;
        }
        let one = samples(message);
        let batch = SampleBatch::new(std::iter::repeat_n(one, copies).flatten().collect());
        let Ok(layouts) = batch.columns() else { return Ok(()) };
        for (column, layout) in layouts.iter().enumerate() {
            // A batch reads only a part of what a trajectory reads, so it may be decodable even if the whole sample is
            // not.
            let Some(size) = layout.size_bytes(batch.len()).filter(|size| *size < 1 << 20) else { continue };
            let mut out = vec![0; size];
            if batch.gather_into(column, &mut out).is_err() {
                continue;
            }
            let whole = batch.samples().iter().map(|sample| sample.columns().ok()?.get(column)?.bytes().cloned());
            if let Some(whole) = whole.collect::<Option<Vec<_>>>() {
                prop_assert_eq!(out, whole.concat());
            }
        }
    }
}
