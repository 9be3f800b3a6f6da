//! Recodes a chunk with a different codec.

use super::encode::{encode_bytes, encode_payloads};
use super::{Chunk, ChunkError, ChunkFault, ChunkParts};
use crate::codec::{Codec, CodecSet};
use crate::dtype::DType;

impl Chunk {
    /// Returns the codecs of the chunk's columns, except strings, which are never compressed.
    #[must_use]
    pub fn codecs(&self) -> CodecSet {
        let compressed = self.columns().iter().filter(|column| column.dtype != DType::String);
        compressed.map(|column| column.codec).collect()
    }

    /// Returns the same content under the same key, with every column encoded with `codec`, as
    /// [`encode_chunk`](super::encode_chunk) does. Delta encoding is preserved.
    ///
    /// ```
    /// # use relive_tensor::{Chunk, Codec, CodecSet, SequenceRange, Tensor, encode_chunk};
    /// # let range = SequenceRange { episode_id: 9, start: 0, end: 1, sparse: false };
    /// let rows = Tensor::from_slice(&[7_i32; 64], [2, 32])?;
    /// let chunk = Chunk::new(encode_chunk(7, range, &[rows.clone()], true, Codec::Zstd)?)?;
    /// let again = chunk.recoded(Codec::Snappy)?;
    /// assert_eq!((again.codecs(), again.decode_column(0)?), (CodecSet::REVERB, rows));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ChunkError`] if the frame grows beyond [`MAX_CHUNK_BYTES`](crate::limits::MAX_CHUNK_BYTES).
    pub fn recoded(&self, codec: Codec) -> Result<Self, ChunkError> {
        let described = self.columns().iter().map(|column| (column.dtype, &column.shape));
        let (frame, columns) =
            encode_payloads(self.key(), described, |index, frame| self.recode(index, codec, frame))?;
        let (key, range, delta_encoded) = (self.key(), self.range(), self.is_delta_encoded());
        Self::new(ChunkParts { key, range, columns, delta_encoded, frame, verbatim: false })
    }

    /// Appends the payload of a column encoded with `codec`, and returns the codec that was used.
    fn recode(&self, index: usize, codec: Codec, frame: &mut Vec<u8>) -> Result<Codec, ChunkFault> {
        let missing = ChunkFault::NoSuchColumn { columns: self.num_columns() };
        let Some((header, payload)) = self.column(index).zip(self.payload(index)) else {
            return Err(missing);
        };
        if header.dtype == DType::String || header.codec == codec {
            frame.extend_from_slice(&payload);
            return Ok(header.codec);
        }
        let len = header.fixed_size().and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
        match header.codec.plain(&payload, len) {
            Some(bytes) => Ok(encode_bytes(bytes, codec, frame)?),
            None => Ok(encode_bytes(&header.codec.decode(&payload, len)?, codec, frame)?),
        }
    }
}
