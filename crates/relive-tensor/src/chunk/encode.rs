//! From tensors to the parts of a chunk.

use smallvec::SmallVec;

use super::{ChunkError, ChunkFault, ChunkParts, ColumnHeader, SequenceRange};
use crate::codec::{Codec, CodecError, delta, strings};
use crate::limits::MAX_CHUNK_BYTES;
use crate::tensor::to_u64;
use crate::{DType, Tensor};

/// Encodes batched tensors, one per column with the rows along the leading dimension, as a chunk of payloads back
/// to back.
///
/// With `use_delta`, columns that [`delta::applies`] to are coded as differences before compression. Strings are never
/// compressed, whatever the codec.
///
/// # Errors
/// [`ChunkError`] if a column cannot be encoded or the frame grows beyond [`MAX_CHUNK_BYTES`]. The parts are
/// validated by [`Chunk::new`](super::Chunk::new), not here.
pub fn encode_chunk(
    key: u64,
    range: SequenceRange,
    columns: &[Tensor],
    use_delta: bool,
    codec: Codec,
) -> Result<ChunkParts, ChunkError> {
    let (frame, columns) = encode_columns(key, columns, |tensor, frame| {
        let codec = if tensor.dtype() == DType::String { Codec::Raw } else { codec };
        encode_tensor(tensor, use_delta, codec, frame).map(|()| codec)
    })?;
    Ok(ChunkParts { key, range, columns, delta_encoded: use_delta, frame, verbatim: false })
}

/// As [`encode_chunk`] with [`Codec::Snappy`], but without looking for anything to compress: its decoders read it.
///
/// # Errors
/// As [`encode_chunk`].
pub fn store_chunk(key: u64, range: SequenceRange, columns: &[Tensor]) -> Result<ChunkParts, ChunkError> {
    let (frame, columns) = encode_columns(key, columns, |tensor, frame| match tensor.bytes() {
        Some(bytes) => Codec::store(bytes, frame).map(|()| Codec::Snappy),
        None => encode_tensor(tensor, false, Codec::Raw, frame).map(|()| Codec::Raw),
    })?;
    Ok(ChunkParts { key, range, columns, delta_encoded: false, frame, verbatim: false })
}

/// A frame, and what is in it.
type Encoded = (Box<[u8]>, SmallVec<[ColumnHeader; 1]>);

/// Payloads one after the other, and what they are. `encode` appends one and tells its codec.
fn encode_columns(
    key: u64,
    columns: &[Tensor],
    encode: impl Fn(&Tensor, &mut Vec<u8>) -> Result<Codec, CodecError>,
) -> Result<Encoded, ChunkError> {
    let mut frame = Vec::new();
    let mut headers = SmallVec::with_capacity(columns.len());
    for (index, tensor) in columns.iter().enumerate() {
        let error = |fault| ChunkError { key, column: Some(index), fault };
        let start = offset(&frame).map_err(error)?;
        let codec = encode(tensor, &mut frame).map_err(|e| error(e.into()))?;
        let span = start..offset(&frame).map_err(error)?;
        headers.push(ColumnHeader { dtype: tensor.dtype(), codec, shape: tensor.shape().clone(), span });
    }
    Ok((exactly(frame), headers))
}

/// The bytes in memory of their size. Codecs ask for room for the worst case, and allocators that are asked to take a part
/// of it back rather keep all: chunks live long, so that is worth a copy.
fn exactly(frame: Vec<u8>) -> Box<[u8]> {
    let unused = frame.capacity() - frame.len();
    if unused > frame.len() / 16 { Box::from(frame.as_slice()) } else { frame.into_boxed_slice() }
}

fn encode_tensor(
    tensor: &Tensor,
    use_delta: bool,
    codec: Codec,
    frame: &mut Vec<u8>,
) -> Result<(), CodecError> {
    match (tensor.bytes(), tensor.strings()) {
        (Some(bytes), _) if use_delta && delta::applies(tensor.dtype(), tensor.shape()) => {
            let mut differences = bytes.to_vec();
            delta::encode(tensor.dtype(), tensor.shape(), &mut differences);
            codec.encode(&differences, frame)
        }
        (Some(bytes), _) => codec.encode(bytes, frame),
        (None, values) => strings::encode(values.unwrap_or_default(), frame),
    }
}

/// Length of the frame so far, as a place in it.
fn offset(frame: &[u8]) -> Result<u32, ChunkFault> {
    let size = to_u64(frame.len());
    let fits = u32::try_from(size).ok().filter(|_| size <= MAX_CHUNK_BYTES);
    fits.ok_or(ChunkFault::Frame { size })
}
