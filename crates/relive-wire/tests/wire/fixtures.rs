//! Tests that messages from the real dm-reverb client are decoded completely and correctly.
#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a fixture that is not as recorded ends the test; pixels wrap as numpy wraps them"
)]

use crate::common::{inserted, recorded};
use relive_tensor::{DType, Shape, Tensor};
use relive_wire::reverb::{
    InitializeConnectionRequest, MutatePrioritiesRequest, ResetRequest, SampleStreamRequest,
};
use relive_wire::{Message, chunk};

#[test]
fn every_dtype_decodes() {
    let all = inserted("insert_dtypes.bin");
    let (item, trajectory) = all.items.first().unwrap();
    assert_eq!((item.table.as_str(), item.priority), ("replay", 1.5));
    let columns = trajectory.decode().unwrap();
    let empty = columns.iter().position(|column| column.num_elements() == 0).unwrap();
    assert_eq!(columns[empty].shape(), &Shape::from(&[10, 0, 3][..]));
    let mut scalars = 0;
    for column in columns.iter().filter(|column| column.shape().rank() == 1) {
        assert_eq!(
            as_f64(column),
            (0..10).map(|step| f64::from(step % 2)).collect::<Vec<_>>(),
            "{}",
            column.dtype()
        );
        scalars += 1;
    }
    let matrix: Vec<f64> = (0..10).flat_map(|step| (0..6).map(move |i| f64::from(i * step % 7))).collect();
    let mut matrices = 0;
    for column in columns.iter().filter(|column| column.shape().dims() == [10, 2, 3]) {
        let expected: Vec<f64> = match column.dtype() {
            DType::Bool => matrix.iter().map(|value| f64::from(u8::from(*value != 0.0))).collect(),
            _ => matrix.clone(),
        };
        assert_eq!(as_f64(column), expected, "{}", column.dtype());
        matrices += 1;
    }
    assert_eq!((scalars, matrices), (14, 14));
}

/// Returns the real part of every element, for any type.
fn as_f64(tensor: &Tensor) -> Vec<f64> {
    match tensor.dtype() {
        DType::Bool => tensor.to_bools().unwrap().into_iter().map(|v| f64::from(u8::from(v))).collect(),
        DType::Float16 => tensor.to_vec::<half::f16>().unwrap().into_iter().map(f64::from).collect(),
        DType::Float32 => tensor.to_vec::<f32>().unwrap().into_iter().map(f64::from).collect(),
        DType::Float64 => tensor.to_vec::<f64>().unwrap(),
        DType::Complex64 => tensor
            .to_vec::<num_complex::Complex<f32>>()
            .unwrap()
            .into_iter()
            .map(|v| f64::from(v.re))
            .collect(),
        DType::Complex128 => {
            tensor.to_vec::<num_complex::Complex<f64>>().unwrap().into_iter().map(|v| v.re).collect()
        }
        DType::Int8 => tensor.to_vec::<i8>().unwrap().into_iter().map(f64::from).collect(),
        DType::Int16 => tensor.to_vec::<i16>().unwrap().into_iter().map(f64::from).collect(),
        DType::Int32 => tensor.to_vec::<i32>().unwrap().into_iter().map(f64::from).collect(),
        DType::Int64 => tensor
            .to_vec::<i64>()
            .unwrap()
            .into_iter()
            .map(|v| f64::from(i32::try_from(v).unwrap()))
            .collect(),
        DType::UInt8 => tensor.to_vec::<u8>().unwrap().into_iter().map(f64::from).collect(),
        DType::UInt16 => tensor.to_vec::<u16>().unwrap().into_iter().map(f64::from).collect(),
        DType::UInt32 => tensor.to_vec::<u32>().unwrap().into_iter().map(f64::from).collect(),
        DType::UInt64 => tensor
            .to_vec::<u64>()
            .unwrap()
            .into_iter()
            .map(|v| f64::from(u32::try_from(v).unwrap()))
            .collect(),
        other => panic!("the fixture holds no {other}"),
    }
}

#[test]
fn strings_are_decoded_byte_for_byte() {
    let all = inserted("insert_strings.bin");
    let columns = all.items[0].1.decode().unwrap();
    let long = "z".repeat(200);
    let expected: [&[u8]; 5] = [b"x", "yä€".as_bytes(), b"", long.as_bytes(), &[0, 0xff]];
    let scalar = columns.iter().find(|column| column.shape().rank() == 1).unwrap();
    assert_eq!(scalar.strings().unwrap(), expected);
    let vector = columns.iter().find(|column| column.shape().rank() == 2).unwrap();
    let tail: &[u8] = b"tail";
    assert_eq!(vector.strings().unwrap(), expected.map(|value| [value, tail]).concat());
}

#[test]
fn slices_over_chunks_of_four_contain_the_right_steps() {
    let all = inserted("insert_chunks_of_four.bin");
    let mut seen = 0;
    for (item, trajectory) in all.items.iter().filter(|(item, _)| item.table == "replay") {
        let columns = trajectory.decode().unwrap();
        let newest = item.priority;
        let steps = (0..5).map(|back| newest - 4.0 + f64::from(back));
        assert_eq!(as_f64(&columns[0]), steps.flat_map(|step| [step; 3]).collect::<Vec<_>>());
        assert_eq!((columns[1].shape().rank(), as_f64(&columns[1])), (0, vec![newest / 4.0]));
        seen += 1;
    }
    assert_eq!(seen, 5);
    assert_eq!(
        all.chunks.len(),
        5,
        "three observation chunks, and two reward chunks: the first is never needed"
    );
}

#[test]
fn legacy_chunks_hold_all_columns_with_and_without_delta_coding() {
    for name in ["insert_legacy.bin", "insert_legacy_delta.bin"] {
        let all = inserted(name);
        assert!(all.chunks.values().all(|chunk| chunk.is_delta_encoded() == name.contains("delta")));
        for (item, trajectory) in &all.items {
            let columns = trajectory.decode().unwrap();
            let first = item.priority - 3.0;
            let steps = [first, first + 1.0, first + 2.0];
            let pixel = |step: f64, i: u8| f64::from((f64::from(i) * 31.0 + step * 40.0) as u64 as u8);
            let pixels: Vec<f64> = steps.iter().flat_map(|s| (0..8).map(|i| pixel(*s, i))).collect();
            assert_eq!(as_f64(&columns[0]), pixels, "{name}");
            assert_eq!(as_f64(&columns[1]), steps.iter().flat_map(|s| [1000.0 * s, -s]).collect::<Vec<_>>());
            assert_eq!(as_f64(&columns[3]), steps);
            let names: Vec<String> = steps.iter().map(|step| format!("step {step}")).collect();
            assert_eq!(columns[5].strings().unwrap(), names, "{name}");
        }
        assert!(!all.items.is_empty());
    }
}

#[test]
fn sparse_columns_keep_their_ranges() {
    let all = inserted("insert_partial_steps.bin");
    assert!(all.chunks.values().any(|chunk| chunk.range().sparse));
    for (_, trajectory) in &all.items {
        let columns = trajectory.decode().unwrap();
        assert_eq!(as_f64(&columns[0]), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(as_f64(&columns[1]), [0.0, 0.0, 2.0, -2.0, 4.0, -4.0]);
    }
}

#[test]
fn a_reencoded_chunk_is_the_same_message() {
    for name in
        ["insert_dtypes.bin", "insert_strings.bin", "insert_chunks_of_four.bin", "insert_legacy_delta.bin"]
    {
        for chunk in inserted(name).chunks.values() {
            let message = relive_wire::reverb::ChunkData::decode(&*chunk.frame()).unwrap();
            let bare = bare_copy(chunk);
            assert_eq!(chunk::encoded_len(&bare), chunk::encode(&bare).len());
            let again = relive_wire::reverb::ChunkData::decode(chunk::encode(&bare)).unwrap();
            assert_eq!(again, message, "{name}");
        }
    }
}

/// Returns the same chunk, as a writer in this process would create it: only payloads, without a message around them.
fn bare_copy(chunk: &relive_tensor::Chunk) -> relive_tensor::Chunk {
    let mut frame = Vec::new();
    let mut columns = Vec::new();
    for i in 0..chunk.num_columns() {
        let mut header = chunk.column(i).unwrap().clone();
        let start = u32::try_from(frame.len()).unwrap();
        frame.extend_from_slice(&chunk.frame()[header.span.start as usize..header.span.end as usize]);
        header.span = start..u32::try_from(frame.len()).unwrap();
        columns.push(header);
    }
    relive_tensor::Chunk::new(relive_tensor::ChunkParts {
        key: chunk.key(),
        range: chunk.range(),
        columns: columns.into_iter().collect(),
        delta_encoded: chunk.is_delta_encoded(),
        frame: frame.into(),
        verbatim: false,
    })
    .unwrap()
}

#[test]
fn small_requests_match_the_recording() {
    let samples = recorded::<SampleStreamRequest>("sample_requests.bin");
    assert_eq!(samples.iter().map(|request| request.num_samples).take(3).collect::<Vec<_>>(), [1, 1, 1]);
    let timeouts: Vec<i64> =
        samples.iter().filter_map(|r| r.rate_limiter_timeout.map(|t| t.milliseconds)).collect();
    assert!([-1, 0, 250].iter().all(|timeout| timeouts.contains(timeout)), "{timeouts:?}");
    assert!(
        recorded::<InitializeConnectionRequest>("initialize_connection.bin")
            .iter()
            .all(|request| request.pid > 0 && request.table_name == "replay")
    );
    let mutations = recorded::<MutatePrioritiesRequest>("mutate_priorities.bin");
    assert_eq!(mutations[0].delete_keys, [3, u64::MAX]);
    let mut updates: Vec<_> =
        mutations[0].updates.iter().map(|update| (update.key, update.priority)).collect();
    updates.sort_by_key(|(key, _)| *key);
    assert_eq!(updates, [(1, 0.25), ((1 << 63) + 5, 7.0)]);
    assert_eq!(recorded::<ResetRequest>("reset.bin")[0].table, "replay");
}
