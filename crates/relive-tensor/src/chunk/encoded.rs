//! A single tensor of a chunk, for readers that decode into their own memory.

use bytes::Bytes;

use super::{Chunk, ChunkBytes, ChunkFault};
use crate::codec::{Codec, delta, strings};
use crate::dtype::DType;
use crate::shape::Shape;
use crate::tensor::{check_bytes, to_u64};

/// One encoded tensor of a chunk, with everything needed to decode it.
///
/// Unlike a [`Chunk`], it is not validated, so decoding fails if the payload is broken.
#[derive(Clone, Debug)]
pub struct EncodedTensor<'a> {
    /// The type of the elements.
    pub dtype: DType,
    /// The compression of the payload.
    pub codec: Codec,
    /// The shape of the whole tensor; the leading dimension is the number of rows.
    pub shape: &'a Shape,
    /// Whether delta coding was applied, if it is applicable to the tensor.
    pub delta_encoded: bool,
    /// The encoded elements.
    pub payload: ChunkBytes<'a>,
    /// Whether the payload is known to end with the uncompressed elements.
    is_plain: bool,
}

impl Chunk {
    /// Returns a single column.
    #[must_use]
    pub fn encoded(&self, index: usize) -> Option<EncodedTensor<'_>> {
        let header = self.column(index)?;
        Some(EncodedTensor {
            dtype: header.dtype,
            codec: header.codec,
            shape: &header.shape,
            delta_encoded: self.is_delta_encoded(),
            payload: self.payload(index)?,
            is_plain: self.is_plain(),
        })
    }

    /// Returns rows of a column in place, each of `row_bytes` bytes. They stay valid while the chunk is alive. Returns
    /// `None` if the column is compressed, if the chunk's bytes are movable, if the rows do not exist, or if the column
    /// has bools, because their bytes have to be checked.
    #[must_use]
    pub fn rows_in_place(&self, index: usize, row_bytes: usize, first: u32, rows: u32) -> Option<&[u8]> {
        let header = self.column(index).filter(|header| self.is_plain() && header.dtype != DType::Bool)?;
        let bytes = |rows: u32| usize::try_from(rows).ok()?.checked_mul(row_bytes);
        let end = usize::try_from(header.span.end).ok()?;
        let column = end.checked_sub(bytes(header.rows())?)?..end;
        let rows = bytes(first)?..bytes(first.checked_add(rows)?)?;
        self.fixed_frame()?.get(column)?.get(rows)
    }
}

impl<'a> EncodedTensor<'a> {
    /// Returns the first rows in place, if they are uncompressed. They stay valid while the chunk is alive. Also
    /// returns `None` if the chunk's bytes are movable. The bytes of bools are not checked.
    pub(crate) fn plain_in_place(&self, rows: u32) -> Option<&'a [u8]> {
        let (plain, row_bytes) = self.plain(self.payload.in_place()?)?;
        plain.get(..row_bytes.checked_mul(usize::try_from(rows).ok()?)?)
    }
}

impl EncodedTensor<'_> {
    /// Returns the number of bytes in the decoded elements, or `None` for strings and for sizes beyond 64 bits.
    #[must_use]
    pub fn size_bytes(&self) -> Option<u64> {
        self.shape.num_elements()?.checked_mul(to_u64(self.dtype.size_bytes()?))
    }

    /// Copies rows, starting with row number `first`, into all of `dst` if the elements are uncompressed. No other rows
    /// are decoded. Returns `None` and leaves `dst` unchanged for strings, compressed or delta-encoded elements, rows
    /// that do not exist, and broken payloads.
    ///
    /// # Errors
    /// [`ChunkFault`] if the bytes of a bool tensor are not valid bools.
    pub fn copy_plain_rows(&self, first: u32, dst: &mut [u8]) -> Option<Result<(), ChunkFault>> {
        let (plain, row_bytes) = self.plain(&self.payload)?;
        let start = row_bytes.checked_mul(usize::try_from(first).ok()?)?;
        dst.copy_from_slice(plain.get(start..start.checked_add(dst.len())?)?);
        Some(check_bytes(self.dtype, dst).map_err(ChunkFault::from))
    }

    /// Returns rows in place if [`copy_plain_rows`](Self::copy_plain_rows) would copy them. Also returns `None` for
    /// bools, because their bytes have to be checked.
    #[must_use]
    pub fn plain_rows(&self, first: u32, rows: u32) -> Option<&[u8]> {
        self.plain_rows_of(&self.payload, first, rows)
    }

    fn plain_rows_of<'p>(&self, payload: &'p [u8], first: u32, rows: u32) -> Option<&'p [u8]> {
        let (plain, row_bytes) = self.plain(payload).filter(|_| self.dtype != DType::Bool)?;
        let at = |row: u32| row_bytes.checked_mul(usize::try_from(row).ok()?);
        plain.get(at(first)?..at(first.checked_add(rows)?)?)
    }

    /// Returns the elements if they are uncompressed, and the number of bytes in a row.
    fn plain<'p>(&self, payload: &'p [u8]) -> Option<(&'p [u8], usize)> {
        if self.delta_encoded && delta::applies(self.dtype, self.shape) {
            return None;
        }
        let size = usize::try_from(self.size_bytes()?).ok()?;
        let rows = usize::try_from(self.shape.rows()?).ok()?;
        let plain = match self.is_plain {
            true => payload.get(payload.len().checked_sub(size)?..)?,
            false => self.codec.plain(payload, size)?,
        };
        Some((plain, size.checked_div(rows)?))
    }

    /// Decodes a tensor of fixed-size elements directly into all of `dst`.
    ///
    /// # Errors
    /// [`ChunkFault`] if `dst` does not have the size of the decoded tensor, if the tensor has strings, if the payload
    /// is broken, or if the bytes of a bool tensor are not valid bools. The content of `dst` is then unspecified.
    pub fn decode_into(&self, dst: &mut [u8]) -> Result<(), ChunkFault> {
        let expected = self.size_bytes();
        if expected != Some(to_u64(dst.len())) {
            let (expected, actual) = (expected.unwrap_or(0), to_u64(dst.len()));
            return Err(ChunkFault::Destination { expected, actual });
        }
        self.codec.decode_into(&self.payload, dst)?;
        if self.delta_encoded {
            delta::decode(self.dtype, self.shape, dst);
        }
        Ok(check_bytes(self.dtype, dst)?)
    }

    /// Decodes the elements of a string tensor. Returns no elements for any other tensor.
    ///
    /// # Errors
    /// [`ChunkFault`] if the payload is broken.
    pub fn decode_strings(&self) -> Result<Vec<Bytes>, ChunkFault> {
        if self.dtype != DType::String {
            return Ok(Vec::new());
        }
        Ok(strings::decode(&self.payload, self.shape.num_elements().unwrap_or(0))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor<'a>(shape: &'a Shape, payload: &'a [u8]) -> EncodedTensor<'a> {
        EncodedTensor {
            dtype: DType::UInt8,
            codec: Codec::Snappy,
            shape,
            delta_encoded: false,
            payload: payload.into(),
            is_plain: false,
        }
    }

    #[test]
    fn every_codec_decodes_into_the_destination() {
        let zeros = vec![0; 1 << 20];
        let shape = Shape::from([1 << 20]);
        for codec in Codec::ALL {
            let mut payload = Vec::new();
            codec.encode(&zeros, &mut payload).unwrap();
            let tensor = EncodedTensor { codec, ..tensor(&shape, &payload) };
            let mut out = vec![1; 1 << 20];
            tensor.decode_into(&mut out).unwrap();
            assert_eq!(out, zeros, "{codec}");
        }
    }

    #[test]
    fn single_uncompressed_rows_are_copied_directly() {
        let shape = Shape::from([3, 2]);
        let block = tensor(&shape, &[6, 5 << 2, 1, 2, 3, 4, 5, 6]);
        let mut two = [0; 4];
        assert_eq!(block.copy_plain_rows(1, &mut two), Some(Ok(())));
        assert_eq!(two, [3, 4, 5, 6]);
        assert_eq!(block.copy_plain_rows(2, &mut two), None, "there is one row left");
        assert_eq!(block.plain_rows(1, 2), Some(&[3, 4, 5, 6][..]));
        assert_eq!((block.plain_rows(2, 2), block.plain_rows(u32::MAX, 2)), (None, None));
        // The payload is a one-byte literal that is repeated five times.
        let compressed = tensor(&shape, &[6, 0, 7, 0b0000_0101, 1]);
        let mut all = [0; 6];
        assert_eq!(compressed.copy_plain_rows(0, &mut all), None);
        assert_eq!(compressed.plain_rows(0, 3), None);
        assert_eq!(compressed.decode_into(&mut all), Ok(()));
        assert_eq!(all, [7; 6]);
        let differences = EncodedTensor { delta_encoded: true, ..block };
        assert_eq!(differences.copy_plain_rows(0, &mut all), None);
        let bools = EncodedTensor { dtype: DType::Bool, delta_encoded: false, ..differences };
        assert!(matches!(bools.copy_plain_rows(0, &mut all), Some(Err(_))));
        assert_eq!(bools.copy_plain_rows(0, &mut [0; 1]), Some(Ok(())), "the first byte is one");
        assert_eq!(bools.plain_rows(0, 1), None, "the bytes were not checked to be bools");
    }

    #[test]
    fn the_destination_must_have_the_size() {
        let shape = Shape::from([4]);
        let fault = tensor(&shape, &[4, 3 << 2, 1, 2, 3, 4]).decode_into(&mut [0; 3]).unwrap_err();
        assert_eq!(fault, ChunkFault::Destination { expected: 4, actual: 3 });
    }
}
