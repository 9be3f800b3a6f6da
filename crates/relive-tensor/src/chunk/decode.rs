//! Decodes a stored column to a tensor.

use bytes::Bytes;

use super::{Chunk, ChunkBytes, ChunkError, ChunkFault, ColumnHeader};
use crate::codec::{delta, strings};
use crate::dtype::DType;
use crate::tensor::Tensor;

impl Chunk {
    /// Decodes a column, in one pass into one allocation.
    ///
    /// # Errors
    /// [`ChunkError`] if there is no such column, or if the bytes of a bool column are not valid bools, which the
    /// validation of the compressed payload cannot detect.
    pub fn decode_column(&self, index: usize) -> Result<Tensor, ChunkError> {
        let (header, payload) = self.header_and_payload(index)?;
        self.decode_tensor(header, &payload).map_err(|fault| self.error(index, fault))
    }

    /// Decodes a column of fixed-size elements directly into all of `dst`.
    ///
    /// # Errors
    /// The errors of [`decode_column`](Self::decode_column). An error is also returned if `dst` does not have the size
    /// of the decoded column, or if the column has strings. The content of `dst` is then unspecified.
    pub fn decode_column_into(&self, index: usize, dst: &mut [u8]) -> Result<(), ChunkError> {
        let columns = self.num_columns();
        let tensor =
            self.encoded(index).ok_or_else(|| self.error(index, ChunkFault::NoSuchColumn { columns }))?;
        tensor.decode_into(dst).map_err(|fault| self.error(index, fault))
    }

    fn decode_tensor(&self, header: &ColumnHeader, payload: &[u8]) -> Result<Tensor, ChunkFault> {
        let shape = header.shape.clone();
        if header.dtype == DType::String {
            let values = strings::decode(payload, shape.num_elements().unwrap_or(0))?;
            return Ok(Tensor::from_strings(values, shape)?);
        }
        let len = header.fixed_size().and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
        let mut data = header.codec.decode(payload, len)?;
        if self.is_delta_encoded() {
            delta::decode(header.dtype, &shape, &mut data);
        }
        Ok(Tensor::new(header.dtype, shape, Bytes::from(data))?)
    }

    fn header_and_payload(&self, index: usize) -> Result<(&ColumnHeader, ChunkBytes<'_>), ChunkError> {
        let columns = self.num_columns();
        self.column(index)
            .zip(self.payload(index))
            .ok_or_else(|| self.error(index, ChunkFault::NoSuchColumn { columns }))
    }

    fn error(&self, column: usize, fault: ChunkFault) -> ChunkError {
        ChunkError { key: self.key(), column: Some(column), fault }
    }
}
