//! The tensor type: construction and views.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::TensorError;
use crate::dtype::DType;
use crate::element::Element;
use crate::limits::{MAX_RANK, STRING_ELEMENT_BYTES};
use crate::shape::{Shape, num_elements};

/// An immutable, row-major array of elements of one type.
///
/// Clones and [`rows`](Self::rows) share the data.
///
/// # Example
///
/// ```
/// use relive_tensor::{DType, Tensor};
///
/// let tensor = Tensor::from_slice(&[1_i32, 2, 3, 4, 5, 6], [3, 2])?;
/// assert_eq!(tensor.dtype(), DType::Int32);
/// assert_eq!(tensor.size_bytes(), 24);
/// assert_eq!(tensor.rows(1..3)?.to_vec::<i32>()?, [3, 4, 5, 6]);
/// assert!(tensor.to_vec::<f32>().is_err(), "elements are not converted");
/// # Ok::<(), relive_tensor::TensorError>(())
/// ```
///
/// # Layout
///
/// Elements are little-endian, bools take one byte (0 or 1), and strings are any bytes. A tensor has at most
/// [`MAX_RANK`] dimensions. Sizes may be 0.
///
/// # Equality
///
/// Two tensors are equal if their types, shapes and bytes are equal. NaNs with the same bits are equal; `0.0` and
/// `-0.0` differ.
///
/// # Errors
///
/// Every method that can fail returns a [`TensorError`] that names the expected and the actual type, shape or size.
#[derive(Clone, PartialEq, Eq)]
pub struct Tensor {
    dtype: DType,
    shape: Shape,
    data: Data,
}

#[derive(Clone, PartialEq, Eq)]
enum Data {
    Fixed(Bytes),
    Strings(Arc<[Bytes]>),
}

impl Tensor {
    /// Creates a tensor from little-endian, row-major bytes, without a copy.
    ///
    /// # Errors
    /// The length does not match dtype and shape, a bool byte is neither 0 nor 1, the shape exceeds [`MAX_RANK`], or
    /// `dtype` is [`DType::String`].
    pub fn new(dtype: DType, shape: impl Into<Shape>, data: Bytes) -> Result<Self, TensorError> {
        let shape = shape.into();
        let expected = fixed_size(dtype, &shape)?;
        if to_u64(data.len()) != expected {
            return Err(TensorError::Length { dtype, shape, expected, actual: to_u64(data.len()) });
        }
        check_bytes(dtype, &data)?;
        Ok(Self { dtype, shape, data: Data::Fixed(data) })
    }

    /// Creates a tensor with a copy of the row-major `values`.
    ///
    /// # Errors
    /// `shape` and `values` differ in their number of elements.
    pub fn from_slice<T: Element>(values: &[T], shape: impl Into<Shape>) -> Result<Self, TensorError> {
        Self::new(T::DTYPE, shape, Bytes::copy_from_slice(bytemuck::cast_slice(values)))
    }

    /// Creates a tensor of shape `[]`.
    #[must_use]
    pub fn scalar<T: Element>(value: T) -> Self {
        let data = Bytes::copy_from_slice(bytemuck::bytes_of(&value));
        Self { dtype: T::DTYPE, shape: Shape::scalar(), data: Data::Fixed(data) }
    }

    /// Creates a string tensor from row-major elements, which may be any bytes.
    ///
    /// # Errors
    /// `shape` and `values` differ in their number of elements.
    pub fn from_strings<S: Into<Bytes>>(
        values: impl IntoIterator<Item = S>,
        shape: impl Into<Shape>,
    ) -> Result<Self, TensorError> {
        let shape = shape.into();
        let values: Arc<[Bytes]> = values.into_iter().map(Into::into).collect();
        let expected = element_count(DType::String, &shape)?;
        if to_u64(values.len()) != expected {
            let actual = to_u64(values.len());
            return Err(TensorError::Length { dtype: DType::String, shape, expected, actual });
        }
        Ok(Self { dtype: DType::String, shape, data: Data::Strings(values) })
    }

    /// Creates a bool tensor, with one byte per element.
    ///
    /// # Errors
    /// `shape` and `values` differ in their number of elements.
    pub fn from_bools(values: &[bool], shape: impl Into<Shape>) -> Result<Self, TensorError> {
        Self::new(DType::Bool, shape, values.iter().map(|&value| u8::from(value)).collect())
    }

    /// Returns the type of the elements.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the sizes of the dimensions.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn num_elements(&self) -> usize {
        match (&self.data, self.dtype.size_bytes()) {
            (Data::Strings(values), _) => values.len(),
            (Data::Fixed(data), Some(size)) => data.len() / size,
            (Data::Fixed(_), None) => 0,
        }
    }

    /// Returns the size of the elements in memory, in bytes, as dm-reverb counts it: each string counts 24 bytes in
    /// addition to its characters.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        match &self.data {
            Data::Fixed(data) => to_u64(data.len()),
            Data::Strings(values) => {
                values.iter().fold(0, |sum, v| sum.saturating_add(to_u64(v.len()) + STRING_ELEMENT_BYTES))
            }
        }
    }

    /// Returns the elements as little-endian bytes, or `None` for strings.
    #[must_use]
    pub fn bytes(&self) -> Option<&Bytes> {
        match &self.data {
            Data::Fixed(data) => Some(data),
            Data::Strings(_) => None,
        }
    }

    /// Returns the elements of a string tensor, or `None` for any other tensor.
    #[must_use]
    pub fn strings(&self) -> Option<&[Bytes]> {
        match &self.data {
            Data::Fixed(_) => None,
            Data::Strings(values) => Some(values),
        }
    }

    /// Returns a copy of the elements.
    ///
    /// # Errors
    /// [`TensorError::DType`] if the tensor has elements with a different type.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, TensorError> {
        let bytes = self.typed_bytes::<T>()?;
        let mut values = vec![T::zeroed(); self.num_elements()];
        bytemuck::cast_slice_mut(&mut values).copy_from_slice(bytes);
        Ok(values)
    }

    /// Returns the elements without a copy.
    ///
    /// # Errors
    /// [`TensorError::DType`] if the tensor has elements with a different type; [`TensorError::Misaligned`] if the
    /// bytes are not aligned for `T`, which happens for a part of a larger buffer.
    pub fn as_slice<T: Element>(&self) -> Result<&[T], TensorError> {
        let bytes = self.typed_bytes::<T>()?;
        if bytes.is_empty() {
            // An empty slice may point anywhere.
            return Ok(&[]);
        }
        bytemuck::try_cast_slice(bytes).map_err(|_| TensorError::Misaligned { dtype: T::DTYPE })
    }

    /// Returns a copy of the elements of a bool tensor.
    ///
    /// # Errors
    /// [`TensorError::DType`] if the elements are not bools.
    pub fn to_bools(&self) -> Result<Vec<bool>, TensorError> {
        match (&self.data, self.dtype) {
            (Data::Fixed(data), DType::Bool) => Ok(data.iter().map(|&byte| byte == 1).collect()),
            (_, actual) => Err(TensorError::DType { expected: DType::Bool, actual }),
        }
    }

    /// Returns the rows in `range` of the leading dimension, without a copy of the data.
    ///
    /// # Errors
    /// [`TensorError::Scalar`] if there is no leading dimension; [`TensorError::Rows`] if the range exceeds it.
    pub fn rows(&self, range: Range<u32>) -> Result<Self, TensorError> {
        let rows = self.shape.rows().ok_or(TensorError::Scalar)?;
        if range.start > range.end || range.end > rows {
            return Err(TensorError::Rows { start: range.start, end: range.end, rows });
        }
        let shape = Shape::batched(range.end - range.start, self.shape.cell_dims());
        let cut = |len: usize| row_span(len, rows, &range);
        let data = match &self.data {
            Data::Fixed(data) => Data::Fixed(data.slice(cut(data.len()))),
            Data::Strings(values) => Data::Strings(values.get(cut(values.len())).unwrap_or_default().into()),
        };
        Ok(Self { dtype: self.dtype, shape, data })
    }

    /// Returns the same data with a different shape, which must have the same number of elements.
    pub(super) fn reshaped(&self, shape: Shape) -> Self {
        Self { dtype: self.dtype, shape, data: self.data.clone() }
    }

    fn typed_bytes<T: Element>(&self) -> Result<&[u8], TensorError> {
        match &self.data {
            Data::Fixed(data) if self.dtype == T::DTYPE => Ok(data),
            _ => Err(TensorError::DType { expected: T::DTYPE, actual: self.dtype }),
        }
    }
}

impl fmt::Debug for Tensor {
    /// Prints only dtype, shape and size, since the data can be large.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({}{}, {} bytes)", self.dtype, self.shape, self.size_bytes())
    }
}

/// Returns the units (bytes or strings) of the rows in `range`, where `rows` rows of equal size have `len` units in
/// total.
fn row_span(len: usize, rows: u32, range: &Range<u32>) -> Range<usize> {
    let per_row = usize::try_from(rows).ok().and_then(|rows| len.checked_div(rows)).unwrap_or(0);
    let at = |row: u32| usize::try_from(row).map_or(len, |row| row * per_row);
    at(range.start)..at(range.end)
}

/// Returns the number of elements of `shape`, checked against the limits for a tensor.
fn element_count(dtype: DType, shape: &Shape) -> Result<u64, TensorError> {
    if shape.rank() > MAX_RANK {
        return Err(TensorError::Rank { rank: shape.rank() });
    }
    num_elements(shape.dims()).ok_or_else(|| TensorError::TooLarge { dtype, shape: shape.clone() })
}

/// Returns the number of bytes in a tensor of fixed-size elements.
fn fixed_size(dtype: DType, shape: &Shape) -> Result<u64, TensorError> {
    let size = dtype.size_bytes().ok_or(TensorError::Strings)?;
    element_count(dtype, shape)?
        .checked_mul(to_u64(size))
        .ok_or_else(|| TensorError::TooLarge { dtype, shape: shape.clone() })
}

/// Checks that `data` contains valid elements of `dtype`. Only bools can be invalid: each byte must be 0 or 1.
pub(crate) fn check_bytes(dtype: DType, data: &[u8]) -> Result<(), TensorError> {
    // The fold has no early exit, so that it is vectorized; the position of an invalid byte is determined only
    // afterwards.
    if dtype != DType::Bool || data.iter().fold(0, |seen, &byte| seen | byte) <= 1 {
        return Ok(());
    }
    let bad = data.iter().copied().enumerate().find(|&(_, byte)| byte > 1);
    bad.map_or(Ok(()), |(position, value)| Err(TensorError::BoolByte { position, value }))
}

pub(crate) fn to_u64(len: usize) -> u64 {
    u64::try_from(len).expect("lengths in memory fit 64 bits")
}
