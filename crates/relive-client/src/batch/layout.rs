//! What a column of a batch looks like.

use relive_tensor::{DType, Shape};

/// Type and shape of one column in each sample of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnLayout {
    /// Type of the elements.
    pub dtype: DType,
    /// Rows of each sample; none if the column is squeezed, so that each sample has one cell without a leading dimension.
    pub rows: Option<u32>,
    /// Shape of one row.
    pub cell_shape: Shape,
}

impl ColumnLayout {
    /// Shape of the column in one sample: `[rows, ..cell]`, or `[..cell]` if it is squeezed.
    #[must_use]
    pub fn sample_shape(&self) -> Shape {
        match self.rows {
            Some(rows) => Shape::batched(rows, self.cell_shape.dims()),
            None => self.cell_shape.clone(),
        }
    }

    /// Bytes of one row; none for strings.
    #[must_use]
    pub fn cell_bytes(&self) -> Option<usize> {
        let elements = usize::try_from(self.cell_shape.num_elements()?).ok()?;
        elements.checked_mul(self.dtype.size_bytes()?)
    }

    /// Bytes of the column in `samples` samples; none for strings, and for more than fits the address space.
    #[must_use]
    pub fn size_bytes(&self, samples: usize) -> Option<usize> {
        let rows = usize::try_from(self.rows.unwrap_or(1)).ok()?;
        self.cell_bytes()?.checked_mul(rows)?.checked_mul(samples)
    }
}
