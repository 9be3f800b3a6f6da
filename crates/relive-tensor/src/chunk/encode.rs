//! From tensors to the parts of a chunk.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{ChunkError, ChunkFault, ChunkParts, ColumnHeader, SequenceRange};
use crate::codec::{Codec, CodecError, delta, strings};
use crate::dtype::DType;
use crate::limits::MAX_CHUNK_BYTES;
use crate::shape::Shape;
use crate::tensor::{Tensor, to_u64};

/// Encodes batched tensors, one per column with the rows along the leading dimension, as a chunk of payloads back
/// to back.
///
/// With `use_delta`, columns that [`delta::applies`] to are coded as differences before compression. Strings are never
/// compressed, whatever the codec; what [`Codec::Lz4`] and [`Codec::Zstd`] do not make shorter by a sixteenth is left
/// as it is ([`Codec::Raw`]), while [`Codec::Snappy`] has a form of its own for that.
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
    let described = columns.iter().map(|tensor| (tensor.dtype(), tensor.shape()));
    let (frame, columns) = encode_payloads(key, described, |index, frame| match columns.get(index) {
        Some(tensor) => Ok(encode_tensor(tensor, use_delta, codec, frame)?),
        None => Err(ChunkFault::NoSuchColumn { columns: columns.len() }),
    })?;
    Ok(ChunkParts { key, range, columns, delta_encoded: use_delta, frame, verbatim: false })
}

/// A frame, and what is in it.
pub(crate) type Encoded = (Arc<[u8]>, SmallVec<[ColumnHeader; 1]>);

/// Payloads of columns of these types and shapes. `encode` appends the one of a number and tells its codec.
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
    // In memory of their size: codecs ask for room for the worst case, and chunks live long.
    Ok((Arc::from(frame.as_slice()), headers))
}

/// Appends a payload and tells how it is coded.
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

/// Appends `bytes` coded with `codec`, or as they are if that does not pay, and tells which.
pub(crate) fn encode_bytes(bytes: &[u8], codec: Codec, frame: &mut Vec<u8>) -> Result<Codec, CodecError> {
    let start = frame.len();
    codec.encode(bytes, frame)?;
    if matches!(codec, Codec::Raw | Codec::Snappy) || Codec::pays(frame.len() - start, bytes.len()) {
        return Ok(codec);
    }
    frame.truncate(start);
    Codec::Raw.encode(bytes, frame)?;
    Ok(Codec::Raw)
}

/// Length of the frame so far, as a place in it.
fn offset(frame: &[u8]) -> Result<u32, ChunkFault> {
    let size = to_u64(frame.len());
    let fits = u32::try_from(size).ok().filter(|_| size <= MAX_CHUNK_BYTES);
    fits.ok_or(ChunkFault::Frame { size })
}
