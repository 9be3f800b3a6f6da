//! The layout of a column of samples.

use crate::dtype::DType;
use crate::shape::Shape;

/// The type and shape of one column in each sample of a batch, or in one item.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ColumnLayout {
    /// The type of the elements.
    pub dtype: DType,
    /// The number of rows of each sample, or `None` if the column is squeezed. Each sample of a squeezed column has one
    /// cell without a leading dimension.
    pub rows: Option<u32>,
    /// The shape of one row.
    pub cell_shape: Shape,
}

impl ColumnLayout {
    /// Creates the layout of a column of `rows` rows, or of one cell if the column is squeezed.
    #[must_use]
    pub fn new(dtype: DType, squeeze: bool, rows: u32, cell_dims: &[u32]) -> Self {
        Self { dtype, rows: (!squeeze).then_some(rows), cell_shape: Shape::from(cell_dims) }
    }

    /// Returns whether the layout describes the given column.
    #[must_use]
    pub fn is(&self, dtype: DType, squeeze: bool, rows: u32, cell_dims: &[u32]) -> bool {
        self.dtype == dtype && self.rows == (!squeeze).then_some(rows) && self.cell_shape.is(cell_dims)
    }

    /// Returns whether the layout describes the given column, except for the number of rows.
    #[must_use]
    pub fn is_kind(&self, dtype: DType, squeeze: bool, cell_dims: &[u32]) -> bool {
        self.dtype == dtype && self.rows.is_none() == squeeze && self.cell_shape.is(cell_dims)
    }

    /// Returns the same layout with a different number of rows, if it has rows.
    #[must_use]
    pub fn with_rows(&self, rows: u32) -> Self {
        Self { rows: self.rows.map(|_| rows), ..self.clone() }
    }

    /// Returns the shape of the column in one sample: `[rows, ..cell]`, or `[..cell]` if it is squeezed.
    #[must_use]
    pub fn sample_shape(&self) -> Shape {
        match self.rows {
            Some(rows) => Shape::batched(rows, self.cell_shape.dims()),
            None => self.cell_shape.clone(),
        }
    }

    /// Returns the number of bytes in one row, or `None` for strings.
    #[must_use]
    pub fn cell_bytes(&self) -> Option<usize> {
        let elements = usize::try_from(self.cell_shape.num_elements()?).ok()?;
        elements.checked_mul(self.dtype.size_bytes()?)
    }

    /// Returns the number of bytes that the column takes in `samples` samples, or `None` for strings, and for sizes
    /// beyond the address space.
    #[must_use]
    pub fn size_bytes(&self, samples: usize) -> Option<usize> {
        let rows = usize::try_from(self.rows.unwrap_or(1)).ok()?;
        self.cell_bytes()?.checked_mul(rows)?.checked_mul(samples)
    }
}
