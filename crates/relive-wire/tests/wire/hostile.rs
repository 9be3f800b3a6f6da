//! Tests that invalid bytes are refused with a reason, and never cause a panic or wrong data.
#![expect(clippy::unwrap_used, reason = "a fixture that is not as recorded ends the test")]

use std::sync::Arc;

use crate::common::{inserted, recorded};
use proptest::prelude::*;
use relive_tensor::Nest;
use relive_wire::reverb::flat_trajectory::{ChunkSlice, Column};
use relive_wire::reverb::{ChunkData, FlatTrajectory, InsertStreamRequest, PrioritizedItem};
use relive_wire::tensorflow::structured_value::Kind;
use relive_wire::tensorflow::tensor_shape_proto::Dim;
use relive_wire::tensorflow::{BoundedTensorSpecProto, StructuredValue, TensorProto, TensorShapeProto};
use relive_wire::{Message, chunk, item, signature, structure};

fn some_chunk() -> ChunkData {
    let request = recorded::<InsertStreamRequest>("insert_chunks_of_four.bin").remove(0);
    ChunkData::decode(request.chunks[0].clone()).unwrap()
}

fn refusal(change: impl FnOnce(&mut ChunkData)) -> String {
    let mut message = some_chunk();
    change(&mut message);
    chunk::decode(&message.encode_to_vec()).expect_err("a lying chunk must be refused").to_string()
}

#[test]
fn inconsistent_chunks_are_refused_with_chunk_column_and_reason() {
    let key = some_chunk().chunk_key.to_string();
    let first = |m: &mut ChunkData| m.data.as_mut().unwrap().tensors[0].clone();
    let set = |m: &mut ChunkData, t| m.data.as_mut().unwrap().tensors[0] = t;
    let corrupt = refusal(|m| {
        let mut tensor = first(m);
        let mut content = tensor.tensor_content.to_vec();
        content.truncate(content.len() / 2);
        tensor.tensor_content = content.into();
        set(m, tensor);
    });
    assert!(corrupt.contains(&key) && corrupt.contains("column 0"), "{corrupt}");
    let shape = refusal(|m| {
        let mut tensor = first(m);
        tensor.tensor_shape.as_mut().unwrap().dim[0].size += 1;
        set(m, tensor);
    });
    assert!(shape.contains(&key), "{shape}");
    let negative = refusal(|m| {
        let mut tensor = first(m);
        tensor.tensor_shape.as_mut().unwrap().dim[0].size = -1;
        set(m, tensor);
    });
    assert!(negative.contains("dimension -1"), "{negative}");
    let dtype = refusal(|m| {
        let mut tensor = first(m);
        tensor.dtype = 20;
        set(m, tensor);
    });
    assert!(dtype.contains("data type number 20"), "{dtype}");
    let count = refusal(|m| m.data_tensors_len = 7);
    assert!(count.contains("data_tensors_len is 7, but it has 1"), "{count}");
    let old = refusal(|m| m.deprecated_data.push(TensorProto::default()));
    assert!(old.contains("deprecated_data"), "{old}");
}

#[test]
fn unchecked_fields_are_not_forwarded() {
    // Known and unknown fields that our reader skips, with content that a complete parser would refuse.
    let unchecked: [&[u8]; 3] =
        [&[5 << 3 | 2, 1, 0], &[14 << 3 | 2, 1, 0xff], &[99 << 3 & 0x7f | 0x80, 6, 1]];
    for field in unchecked {
        let plain = some_chunk();
        let tensor = plain.data.as_ref().unwrap().tensors[0].encode_to_vec();
        let tensor = [tensor.as_slice(), field].concat();
        let data = [&[1 << 3 | 2, u8::try_from(tensor.len()).unwrap()], tensor.as_slice()].concat();
        let head = ChunkData { data: None, ..plain.clone() }.encode_to_vec();
        let message = [&head, [5 << 3 | 2, u8::try_from(data.len()).unwrap()].as_slice(), &data].concat();
        let chunk = chunk::decode(&message).unwrap();
        assert!(!chunk.is_verbatim());
        assert_eq!(ChunkData::decode(chunk::encode(&chunk)).unwrap(), plain);
    }
}

#[test]
fn parts_of_a_message_are_merged_as_protobuf_merges_them() {
    let whole = some_chunk();
    let range = whole.sequence_range.unwrap();
    let part = |end| ChunkData {
        sequence_range: Some(relive_wire::reverb::SequenceRange { end, ..Default::default() }),
        ..ChunkData::default()
    };
    let message = [whole.encode_to_vec(), part(77).encode_to_vec()].concat();
    let merged = chunk::decode(&message).unwrap().range();
    assert_eq!((merged.episode_id, merged.start, merged.end), (range.episode_id, range.start, 77));

    let mut split = whole.clone();
    let tensor = &mut split.data.as_mut().unwrap().tensors[0];
    let rest = tensor.tensor_shape.as_mut().unwrap().dim.split_off(1);
    let tail = TensorProto {
        tensor_shape: Some(TensorShapeProto { dim: rest, ..Default::default() }),
        ..TensorProto::default()
    };
    let tensor = [tensor.encode_to_vec(), tail.encode_to_vec()].concat();
    let data = [&[1 << 3 | 2, u8::try_from(tensor.len()).unwrap()], tensor.as_slice()].concat();
    split.data = None;
    let head = [5 << 3 | 2, u8::try_from(data.len()).unwrap()];
    let message = [split.encode_to_vec().as_slice(), &head, &data].concat();
    let shape = chunk::decode(&message).unwrap().column(0).unwrap().shape.clone();
    assert_eq!(shape.dims(), [4, 3]);
}

#[test]
fn keys_and_numbers_outside_the_protobuf_range_are_refused() {
    let plain = some_chunk().encode_to_vec();
    let with = |tail: &[u8]| chunk::decode(&[plain.as_slice(), tail].concat()).unwrap_err().to_string();
    assert!(with(&[0, 1]).contains("field number 0 is out of range"), "{}", with(&[0, 1]));
    let beyond = with(&[0x80, 0x80, 0x80, 0x80, 0x10, 1]);
    assert!(beyond.contains("field number 536870912 is out of range"), "{beyond}");
    let long = [[8].as_slice(), &[0xff; 9], &[2]].concat();
    assert!(with(&long).contains("does not fit 64 bits"), "{}", with(&long));
    assert!(with(&[7 << 3 | 2, 0]).contains("a different wire type"), "{}", with(&[7 << 3 | 2, 0]));
}

fn item_refusal(columns: Vec<Column>) -> String {
    let all = inserted("insert_chunks_of_four.bin");
    let flat_trajectory = Some(FlatTrajectory { columns });
    let message = PrioritizedItem { key: 5, flat_trajectory, ..PrioritizedItem::default() };
    item::decode(&message, |key| all.chunks.get(&key).map(Arc::clone)).map(drop).unwrap_err().to_string()
}

fn column(squeeze: bool, change: impl Fn(&mut ChunkSlice)) -> Column {
    let chunk_key = some_chunk().chunk_key;
    let mut slice = ChunkSlice { chunk_key, offset: 0, length: 2, index: 0 };
    change(&mut slice);
    Column { chunk_slices: vec![slice], squeeze }
}

#[test]
fn items_that_do_not_fit_their_chunks_are_refused() {
    let key = inserted("insert_chunks_of_four.bin").chunks.keys().next().copied().unwrap();
    for (columns, reason) in [
        (vec![], "no trajectory"),
        (vec![Column::default()], "no trajectory"),
        (vec![column(false, |s| s.offset = -1)], "negative offset (-1)"),
        (vec![column(false, |s| s.length = -3)], "negative length (-3)"),
        (vec![column(false, |s| s.index = -1)], "negative index (-1)"),
        (vec![column(false, |s| s.chunk_key = 1)], "chunk 1, which this stream does not hold"),
    ] {
        let text = item_refusal(columns);
        assert!(text.contains("item 5") && text.contains(reason), "{text} (chunk {key})");
    }
    for columns in [
        vec![column(false, |s| s.offset = 3)],
        vec![column(false, |s| s.length = i32::MAX)],
        vec![column(false, |s| s.length = 0)],
        vec![column(false, |s| s.index = 1)],
        vec![column(true, |_| ())],
        vec![column(false, |_| ()), Column::default()],
    ] {
        let text = item_refusal(columns.clone());
        assert!(text.contains("item 5") && text.contains("column"), "{columns:?}: {text}");
    }
}

#[test]
fn a_few_bytes_of_bounds_cannot_allocate_gigabytes() {
    let shape =
        |size| Some(TensorShapeProto { dim: vec![Dim { size, name: String::new() }], unknown_rank: false });
    let bound = |size| {
        let tensor_shape = shape(size);
        Some(TensorProto { dtype: 2, tensor_shape, double_val: vec![1.0], ..TensorProto::default() })
    };
    let read = |size| {
        let spec = BoundedTensorSpecProto {
            name: "leaf".to_owned(),
            shape: shape(size),
            dtype: 2,
            minimum: bound(size),
            maximum: bound(size),
        };
        signature::from_wire(&StructuredValue { kind: Some(Kind::BoundedTensorSpecValue(spec)) })
    };
    assert!(read(1000).is_ok());
    let each_fits_but_both_do_not = 5 << 20;
    let text = read(each_fits_but_both_do_not).unwrap_err().to_string();
    assert!(text.contains("over more than 67108864 bytes"), "{text}");
    assert!(read(i64::from(u32::MAX)).is_err());
}

proptest! {
    #[test]
    fn damaged_chunk_messages_never_panic_and_never_grow(
        flips in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<proptest::sample::Index>(),
        fixture in prop_oneof![Just("insert_dtypes.bin"), Just("insert_strings.bin"), Just("insert_legacy_delta.bin")],
        which in any::<proptest::sample::Index>(),
    ) {
        let request = recorded::<InsertStreamRequest>(fixture).remove(0);
        let mut bytes = which.get(&request.chunks).to_vec();
        for (at, value) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= value;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        if let Ok(chunk) = chunk::decode(&bytes) {
            for i in 0..chunk.num_columns() {
                if let Ok(tensor) = chunk.decode_column(i) {
                    prop_assert_eq!(tensor.shape(), &chunk.column(i).unwrap().shape);
                }
            }
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = chunk::decode(&bytes);
    }
}

/// Returns a column inside this many nested containers; adjacent containers are of different kinds.
fn wrapped(levels: usize) -> Nest<()> {
    (0..levels).fold(Nest::Leaf(()), |inner, level| match level % 3 {
        0 => Nest::NamedTuple {
            name: "N".into(),
            fields: vec![("f".into(), inner), ("none".into(), Nest::None)],
        },
        1 => Nest::dict([("d", inner)]),
        _ => Nest::Tuple(vec![Nest::List(Vec::new()), inner]),
    })
}

#[test]
fn structures_round_trip() {
    for nest in [wrapped(0), wrapped(32), Nest::None, Nest::List(vec![Nest::None, Nest::Leaf(())])] {
        let bytes = structure::to_wire(&nest).encode_to_vec();
        let message = StructuredValue::decode(bytes.as_slice()).unwrap();
        assert_eq!(structure::from_wire(&message).unwrap(), nest);
    }
}

#[test]
fn invalid_structures_are_refused_with_the_path() {
    let deep = structure::from_wire(&structure::to_wire(&wrapped(33))).unwrap_err().to_string();
    assert!(deep.ends_with("nested deeper than 32 levels"), "{deep}");
    let mut message = structure::to_wire(&Nest::dict([("a", Nest::Tuple(vec![Nest::Leaf(())]))]));
    let Some(Kind::DictValue(dict)) = &mut message.kind else { panic!("{message:?}") };
    let Some(Kind::TupleValue(tuple)) = &mut dict.fields.get_mut("a").unwrap().kind else {
        panic!("a tuple")
    };
    tuple.values[0].kind = Some(Kind::Int64Value(3));
    let leaf = structure::from_wire(&message).unwrap_err().to_string();
    assert_eq!(leaf, "structure of columns at `a/0`: a leaf must be a none_value, not an integer");
}
