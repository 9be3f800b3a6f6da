//! Encoded `ChunkData` messages.

use relive_tensor::{Chunk, ChunkParts, Codec, CodecSet, DType};
use relive_wire::reverb::ChunkData;
use relive_wire::{Message, chunk, codec, dtype};

/// Checks that bytes become a chunk or an error, and that a chunk can be decoded, encoded again, and read by other
/// protobuf decoders.
pub fn check(message: &[u8]) -> bool {
    let Ok(chunk) = chunk::decode(message) else { return false };
    columns_decode(&chunk);
    assert_eq!(chunk::key(message).expect("the message of a chunk"), chunk.key());
    survives_new_framing(&chunk);
    reads_the_same_elsewhere(&chunk);
    is_the_same_in_snappy(&chunk);
    true
}

/// Checks that a reader that only supports Snappy gets the same data.
fn is_the_same_in_snappy(chunk: &Chunk) {
    let again = chunk.recoded(Codec::Snappy).expect("a small chunk");
    assert!(CodecSet::REVERB.includes(again.codecs()));
    for index in 0..chunk.num_columns() {
        match (chunk.decode_column(index), again.decode_column(index)) {
            (Ok(tensor), Ok(same)) => assert!(tensor == same),
            (one, other) => assert_eq!(one.is_err(), other.is_err()),
        }
    }
}

/// Checks that every column decodes to the type and shape in its header. Only columns of bools may fail this late,
/// because validation does not decompress their bytes.
fn columns_decode(chunk: &Chunk) {
    let mut size_bytes = Some(0);
    for (index, header) in chunk.columns().iter().enumerate() {
        match chunk.decode_column(index) {
            Ok(tensor) => {
                assert_eq!((tensor.dtype(), tensor.shape()), (header.dtype, &header.shape));
                size_bytes = size_bytes.map(|sum| sum + tensor.size_bytes());
                if let Some(bytes) = tensor.bytes() {
                    let mut place = vec![0xff; bytes.len()];
                    chunk.decode_column_into(index, &mut place).expect("a column that decodes");
                    assert_eq!(place, bytes.as_ref());
                }
            }
            Err(error) => {
                assert_eq!(header.dtype, DType::Bool, "{error}");
                size_bytes = None;
            }
        }
    }
    assert!(chunk.decode_column(chunk.num_columns()).is_err());
    assert!(size_bytes.is_none_or(|sum| sum == chunk.uncompressed_size_bytes()));
}

/// Checks a chunk that only has payloads, like those of a writer in this process: its encoded message decodes to the
/// same chunk.
fn survives_new_framing(chunk: &Chunk) {
    let bare = bare_copy(chunk);
    let encoded = chunk::encode(&bare);
    assert_eq!(encoded.len(), chunk::encoded_len(&bare));
    assert_same(chunk, &chunk::decode(&encoded).expect("a message of our own making"));
}

fn bare_copy(chunk: &Chunk) -> Chunk {
    let mut frame = Vec::new();
    let mut columns = chunk.columns().to_vec();
    for (index, header) in columns.iter_mut().enumerate() {
        let start = narrow(frame.len());
        frame.extend_from_slice(&chunk.payload(index).expect("the span of a column lies in the frame"));
        header.span = start..narrow(frame.len());
    }
    let parts = ChunkParts {
        key: chunk.key(),
        range: chunk.range(),
        columns: columns.into(),
        delta_encoded: chunk.is_delta_encoded(),
        frame: frame.into(),
        verbatim: false,
    };
    Chunk::new(parts).expect("payloads that were accepted before")
}

fn narrow(at: usize) -> u32 {
    u32::try_from(at).expect("frames are at most 2 GiB")
}

fn assert_same(one: &Chunk, other: &Chunk) {
    assert_eq!(one.key(), other.key());
    assert_eq!(one.range(), other.range());
    assert_eq!(one.is_delta_encoded(), other.is_delta_encoded());
    assert_eq!(one.uncompressed_size_bytes(), other.uncompressed_size_bytes());
    assert_eq!(one.num_columns(), other.num_columns());
    for (index, (a, b)) in one.columns().iter().zip(other.columns()).enumerate() {
        assert_eq!((a.dtype, a.codec, &a.shape), (b.dtype, b.codec, &b.shape));
        assert_eq!(one.payload(index), other.payload(index));
    }
}

/// Checks that a full protobuf decoder reads the same content from the encoded message as Relive's decoder, which
/// parses it only in part.
fn reads_the_same_elsewhere(chunk: &Chunk) {
    let message = ChunkData::decode(chunk::encode(chunk)).expect("readers can parse what they are sent");
    let (range, theirs) = (chunk.range(), message.sequence_range.unwrap_or_default());
    assert_eq!(chunk.key(), message.chunk_key);
    assert_eq!(chunk.is_delta_encoded(), message.delta_encoded);
    assert_eq!((range.episode_id, range.start), (theirs.episode_id, theirs.start));
    assert_eq!((range.end, range.sparse), (theirs.end, theirs.sparse));
    let tensors = message.data.unwrap_or_default().tensors;
    assert_eq!(chunk.num_columns(), tensors.len());
    for (index, (header, tensor)) in chunk.columns().iter().zip(tensors).enumerate() {
        let dims = tensor.tensor_shape.unwrap_or_default().dim;
        assert_eq!(Some(header.dtype), dtype::from_wire(tensor.dtype.into()));
        assert!(header.shape.dims().iter().map(|&size| i64::from(size)).eq(dims.iter().map(|dim| dim.size)));
        assert_eq!(chunk.payload(index).as_deref(), Some(&*tensor.tensor_content));
        assert!(tensor.string_val.is_empty());
        let codec = codec::from_wire(u64::try_from(tensor.relive_codec).expect("a known codec"));
        assert!(header.dtype == DType::String || codec == Some(header.codec));
    }
}
