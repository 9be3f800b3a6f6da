//! Encodes tensors into the parts of a chunk.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{ChunkError, ChunkFault, ChunkParts, ColumnHeader, SequenceRange};
use crate::codec::{Codec, CodecError, delta, strings};
use crate::dtype::DType;
use crate::limits::MAX_CHUNK_BYTES;
use crate::shape::Shape;
use crate::tensor::{Tensor, to_u64};

/// Encodes batched tensors as a chunk of consecutive payloads. There is one tensor per column, with the rows along the
/// leading dimension.
///
/// With `use_delta`, columns to which [`delta::applies`] are encoded as differences before compression. Strings are
/// never compressed, regardless of the codec. Data that [`Codec::Lz4`] or [`Codec::Zstd`] does not shrink by at least a
/// sixteenth is stored uncompressed ([`Codec::Raw`]); [`Codec::Snappy`] has its own form for such data.
///
/// # Errors
/// [`ChunkError`] if a column cannot be encoded or the frame grows beyond [`MAX_CHUNK_BYTES`]. The parts are validated
/// by [`Chunk::new`](super::Chunk::new), not here.
pub fn encode_chunk(
    key: u64,
    range: SequenceRange,
    columns: &[Tensor],
    use_delta: bool,
    codec: Codec,
) -> Result<ChunkParts, ChunkError> {
    let described = columns.iter().map(|tensor| (tensor.dtype(), tensor.shape()));
    let (frame, columns) = encode_payloads(key, described, |index, frame| match columns.get(index) {
        Some(tensor) => Ok(encode_tensor(tensor, use_delta, codec, frame)?),
        None => Err(ChunkFault::NoSuchColumn { columns: columns.len() }),
    })?;
    Ok(ChunkParts { key, range, columns, delta_encoded: use_delta, frame, verbatim: false })
}

/// A frame and its headers.
pub(crate) type Encoded = (Arc<[u8]>, SmallVec<[ColumnHeader; 1]>);

/// Encodes the payloads of columns with the given types and shapes. `encode` appends the payload of a column and
/// returns its codec.
pub(crate) fn encode_payloads<'a>(
    key: u64,
    columns: impl ExactSizeIterator<Item = (DType, &'a Shape)>,
    encode: impl Fn(usize, &mut Vec<u8>) -> Result<Codec, ChunkFault>,
) -> Result<Encoded, ChunkError> {
    let mut frame = Vec::new();
    let mut headers = SmallVec::with_capacity(columns.len());
    for (index, (dtype, shape)) in columns.enumerate() {
        let error = |fault| ChunkError { key, column: Some(index), fault };
        let start = offset(&frame).map_err(error)?;
        let codec = encode(index, &mut frame).map_err(error)?;
        let span = start..offset(&frame).map_err(error)?;
        headers.push(ColumnHeader { dtype, codec, shape: shape.clone(), span });
    }
    // The frame is copied to memory of the exact size, because codecs reserve room for the worst case and chunks are
    // long-lived.
    Ok((Arc::from(frame.as_slice()), headers))
}

/// Appends a payload and returns its codec.
fn encode_tensor(
    tensor: &Tensor,
    use_delta: bool,
    codec: Codec,
    frame: &mut Vec<u8>,
) -> Result<Codec, CodecError> {
    match (tensor.bytes(), tensor.strings()) {
        (Some(bytes), _) if use_delta && delta::applies(tensor.dtype(), tensor.shape()) => {
            let mut differences = bytes.to_vec();
            delta::encode(tensor.dtype(), tensor.shape(), &mut differences);
            encode_bytes(&differences, codec, frame)
        }
        (Some(bytes), _) => encode_bytes(bytes, codec, frame),
        (None, values) => strings::encode(values.unwrap_or_default(), frame).map(|()| Codec::Raw),
    }
}

/// Appends `bytes`, encoded with `codec` or, if compression does not pay off, uncompressed. Returns the codec that was
/// used.
pub(crate) fn encode_bytes(bytes: &[u8], codec: Codec, frame: &mut Vec<u8>) -> Result<Codec, CodecError> {
    let start = frame.len();
    codec.encode(bytes, frame)?;
    if matches!(codec, Codec::Raw | Codec::Snappy) || Codec::is_worthwhile(frame.len() - start, bytes.len()) {
        return Ok(codec);
    }
    frame.truncate(start);
    Codec::Raw.encode(bytes, frame)?;
    Ok(Codec::Raw)
}

/// Returns the current length of the frame as an offset.
fn offset(frame: &[u8]) -> Result<u32, ChunkFault> {
    let size = to_u64(frame.len());
    let fits = u32::try_from(size).ok().filter(|_| size <= MAX_CHUNK_BYTES);
    fits.ok_or(ChunkFault::Frame { size })
}
