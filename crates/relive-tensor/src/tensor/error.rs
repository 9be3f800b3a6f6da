//! The error of tensors.

use crate::dtype::DType;
use crate::limits::MAX_RANK;
use crate::shape::Shape;

/// The reason why a tensor cannot be created, viewed or joined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the error messages explain the fields")]
pub enum TensorError {
    /// The length of the data does not match dtype and shape.
    #[error("tensor {dtype}{shape} needs {expected} bytes (elements, for strings), got {actual}")]
    Length { dtype: DType, shape: Shape, expected: u64, actual: u64 },
    /// The number of elements or bytes of the shape cannot be represented.
    #[error("tensor {dtype}{shape} is too large to count its bytes")]
    TooLarge { dtype: DType, shape: Shape },
    /// More dimensions than [`MAX_RANK`].
    #[error("tensor has {rank} dimensions; the limit is {MAX_RANK}")]
    Rank { rank: usize },
    /// A byte of a bool tensor is neither 0 nor 1.
    #[error("byte {position} of a bool tensor is {value}, but it must be 0 or 1")]
    BoolByte { position: usize, value: u8 },
    /// Bytes were given for, or requested from, a string tensor.
    #[error("string tensors have no bytes of fixed size; use from_strings and strings")]
    Strings,
    /// The tensor's element type is not the requested one.
    #[error("tensor has dtype {actual}, not {expected}")]
    DType { expected: DType, actual: DType },
    /// Tensors to be joined differ in shape.
    #[error("tensor has shape {actual} where {expected} is needed")]
    Shape { expected: Shape, actual: Shape },
    /// The bytes are not aligned for elements of the type.
    #[error("the bytes of this {dtype} tensor are not aligned for a borrowed view; use to_vec")]
    Misaligned { dtype: DType },
    /// The requested rows do not exist.
    #[error("rows {start}..{end} are outside of the {rows} rows of the tensor")]
    Rows { start: u32, end: u32, rows: u32 },
    /// A leading dimension was needed, but the tensor is a scalar.
    #[error("the tensor is a scalar and has no leading dimension")]
    Scalar,
    /// The list of tensors is empty.
    #[error("there are no tensors to join")]
    Nothing,
}
