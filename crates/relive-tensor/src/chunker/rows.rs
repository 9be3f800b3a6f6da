//! Values to be put into a chunk, borrowed from the caller.

use bytes::Bytes;

use crate::dtype::DType;
use crate::limits::STRING_ELEMENT_BYTES;
use crate::shape::{Shape, num_elements};
use crate::tensor::{Tensor, TensorError, check_bytes, to_u64};

/// The borrowed values of one column at consecutive steps. If they fill a chunk, the chunk is encoded directly from
/// them.
///
/// ```
/// use relive_tensor::{Rows, Tensor};
/// let tensor = Tensor::from_slice(&[1_i32, 2, 3, 4], [2, 2])?;
/// assert_eq!((Rows::step(&tensor).rows(), Rows::step(&tensor).cell_dims()), (1, &[2, 2][..]));
/// let steps = Rows::steps(&tensor).expect("it has a leading dimension");
/// assert_eq!((steps.rows(), steps.cell_dims()), (2, &[2][..]));
/// # Ok::<(), relive_tensor::TensorError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    dtype: DType,
    cell_dims: &'a [u32],
    rows: u32,
    data: RowData<'a>,
}

/// The elements of some rows.
#[derive(Clone, Copy, Debug)]
pub(super) enum RowData<'a> {
    /// Little-endian, row-major.
    Borrowed(&'a [u8]),
    /// Shared bytes, which can be kept without a copy.
    Shared { bytes: &'a Bytes, start: usize, end: usize },
    /// Strings, row-major.
    Strings(&'a [Bytes]),
}

impl<'a> Rows<'a> {
    /// Creates the value of one step.
    #[must_use]
    pub fn step(value: &'a Tensor) -> Self {
        Self::of(value, value.shape().dims(), 1)
    }

    /// Creates the values of several steps along the leading dimension, or `None` for a scalar.
    #[must_use]
    pub fn steps(values: &'a Tensor) -> Option<Self> {
        Some(Self::of(values, values.shape().cell_dims(), values.shape().rows()?))
    }

    /// Creates `rows` values of shape `cell_dims` from little-endian, row-major bytes.
    ///
    /// # Errors
    /// [`TensorError`] if the length does not match the type and shape, if a bool byte is neither 0 nor 1, or if
    /// `dtype` is [`DType::String`].
    pub fn of_bytes(
        dtype: DType,
        cell_dims: &'a [u32],
        rows: u32,
        bytes: &'a [u8],
    ) -> Result<Self, TensorError> {
        let shape = || Shape::batched(rows, cell_dims);
        let no_size =
            || TensorError::Length { dtype, shape: shape(), expected: 0, actual: to_u64(bytes.len()) };
        let size = dtype.size_bytes().ok_or_else(no_size)?;
        let cells = num_elements(cell_dims).and_then(|cells| cells.checked_mul(u64::from(rows)));
        let expected = cells.and_then(|cells| cells.checked_mul(to_u64(size)));
        if expected != Some(to_u64(bytes.len())) {
            let (expected, actual) = (expected.unwrap_or(u64::MAX), to_u64(bytes.len()));
            return Err(TensorError::Length { dtype, shape: shape(), expected, actual });
        }
        check_bytes(dtype, bytes)?;
        Ok(Self { dtype, cell_dims, rows, data: RowData::Borrowed(bytes) })
    }

    fn of(tensor: &'a Tensor, cell_dims: &'a [u32], rows: u32) -> Self {
        let data = match (tensor.bytes(), tensor.strings()) {
            (Some(bytes), _) => RowData::Shared { bytes, start: 0, end: bytes.len() },
            (None, strings) => RowData::Strings(strings.unwrap_or_default()),
        };
        Self { dtype: tensor.dtype(), cell_dims, rows, data }
    }

    /// Returns the type of the elements.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the sizes of the dimensions of one row.
    #[must_use]
    pub fn cell_dims(&self) -> &'a [u32] {
        self.cell_dims
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Returns the number of bytes in one row, with strings counted as in [`Tensor::size_bytes`]. For several rows of
    /// strings, this is the mean number.
    #[must_use]
    pub fn cell_bytes(&self) -> u64 {
        self.size_bytes() / u64::from(self.rows.max(1))
    }

    pub(super) fn size_bytes(&self) -> u64 {
        match self.data {
            RowData::Borrowed(bytes) => to_u64(bytes.len()),
            RowData::Shared { start, end, .. } => to_u64(end - start),
            RowData::Strings(strings) => strings
                .iter()
                .fold(0, |sum, text| sum.saturating_add(to_u64(text.len()) + STRING_ELEMENT_BYTES)),
        }
    }

    pub(super) fn data(&self) -> RowData<'a> {
        self.data
    }

    /// Returns `count` rows, starting with row number `first`.
    pub(super) fn part(&self, first: u32, count: u32) -> Self {
        let cut = |len: usize| {
            let per_row = len / (self.rows as usize).max(1);
            let start = (first as usize).saturating_mul(per_row).min(len);
            start..start.saturating_add((count as usize).saturating_mul(per_row)).min(len)
        };
        let data = match self.data {
            RowData::Borrowed(bytes) => RowData::Borrowed(bytes.get(cut(bytes.len())).unwrap_or_default()),
            RowData::Shared { bytes, start, end } => {
                let range = cut(end - start);
                RowData::Shared { bytes, start: start + range.start, end: start + range.end }
            }
            RowData::Strings(strings) => {
                RowData::Strings(strings.get(cut(strings.len())).unwrap_or_default())
            }
        };
        Self { rows: count, data, ..*self }
    }
}

impl<'a> RowData<'a> {
    /// Returns the bytes, or none for strings.
    pub(super) fn bytes(self) -> &'a [u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Shared { bytes, start, end } => bytes.get(start..end).unwrap_or_default(),
            Self::Strings(_) => &[],
        }
    }
}
