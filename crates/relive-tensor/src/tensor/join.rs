//! Joins and reshapes tensors.

use bytes::Bytes;

use super::{Tensor, TensorError};
use crate::dtype::DType;
use crate::limits::MAX_RANK;
use crate::shape::Shape;

impl Tensor {
    /// Concatenates the rows of all `parts` along the leading dimension.
    ///
    /// ```
    /// use relive_tensor::Tensor;
    /// let (a, b) = (Tensor::from_slice(&[1_u8, 2], [2])?, Tensor::from_slice(&[3_u8], [1])?);
    /// assert_eq!(Tensor::concat(&[a, b])?.to_vec::<u8>()?, [1, 2, 3]);
    /// # Ok::<(), relive_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// There are no parts, or they differ in dtype or in any dimension except the leading one.
    pub fn concat(parts: &[Self]) -> Result<Self, TensorError> {
        let first = parts.first().ok_or(TensorError::Nothing)?;
        let mut rows = 0_u32;
        for part in parts {
            let part_rows = part.shape().rows().ok_or(TensorError::Scalar)?;
            if part.shape().cell_dims() != first.shape().cell_dims() {
                let (expected, actual) = (first.shape().clone(), part.shape().clone());
                return Err(TensorError::Shape { expected, actual });
            }
            let too_large = || TensorError::TooLarge { dtype: first.dtype(), shape: first.shape().clone() };
            rows = rows.checked_add(part_rows).ok_or_else(too_large)?;
        }
        join(parts, first.dtype(), Shape::batched(rows, first.shape().cell_dims()))
    }

    /// Stacks all `parts` along a new leading dimension.
    ///
    /// # Errors
    /// There are no parts, they differ in dtype or shape, or they already have [`MAX_RANK`] dimensions.
    pub fn stack(parts: &[Self]) -> Result<Self, TensorError> {
        let first = parts.first().ok_or(TensorError::Nothing)?;
        if let Some(other) = parts.iter().find(|part| part.shape() != first.shape()) {
            let (expected, actual) = (first.shape().clone(), other.shape().clone());
            return Err(TensorError::Shape { expected, actual });
        }
        let rows = u32::try_from(parts.len())
            .map_err(|_| TensorError::TooLarge { dtype: first.dtype(), shape: first.shape().clone() })?;
        join(parts, first.dtype(), Shape::batched(rows, first.shape().dims()))
    }

    /// Returns the only row, without the leading dimension.
    ///
    /// # Errors
    /// [`TensorError::Scalar`] if there is no leading dimension; [`TensorError::Shape`] if its size is not 1.
    pub fn squeeze_leading(&self) -> Result<Self, TensorError> {
        let cell = self.shape().cell_dims();
        match self.shape().rows() {
            None => Err(TensorError::Scalar),
            Some(1) => Ok(self.reshaped(Shape::from(cell))),
            Some(_) => {
                Err(TensorError::Shape { expected: Shape::batched(1, cell), actual: self.shape().clone() })
            }
        }
    }

    /// Adds a leading dimension of size 1.
    ///
    /// # Errors
    /// [`TensorError::Rank`] if the tensor already has [`MAX_RANK`] dimensions.
    pub fn unsqueeze(&self) -> Result<Self, TensorError> {
        if self.shape().rank() >= MAX_RANK {
            return Err(TensorError::Rank { rank: self.shape().rank() + 1 });
        }
        Ok(self.reshaped(Shape::batched(1, self.shape().dims())))
    }
}

/// Joins the elements of all `parts` into a tensor of the given `shape`.
fn join(parts: &[Tensor], dtype: DType, shape: Shape) -> Result<Tensor, TensorError> {
    if let Some(other) = parts.iter().find(|part| part.dtype() != dtype) {
        return Err(TensorError::DType { expected: dtype, actual: other.dtype() });
    }
    if dtype == DType::String {
        let values = parts.iter().filter_map(Tensor::strings).flatten().cloned();
        return Tensor::from_strings(values, shape);
    }
    let len = parts.iter().filter_map(Tensor::bytes).map(Bytes::len).sum();
    let mut data = Vec::with_capacity(len);
    parts.iter().filter_map(Tensor::bytes).for_each(|bytes| data.extend_from_slice(bytes));
    Tensor::new(dtype, shape, data.into())
}
