//! Which columns samples have in common.

use std::hint::black_box;

use relive_table::Sampled;
use relive_tensor::{Column, DType, Shape};

use super::BatchError;
use super::pieces::Piece;
use super::uniform::{Uniform, UniformColumn};

/// Sampled items as columns `[samples, rows, ..cell]`; nothing is decoded before it is asked for.
#[derive(Debug)]
pub struct Batch {
    pub(super) samples: Vec<Sampled>,
    columns: Vec<BatchColumn>,
    /// Column by column, in each sample by sample.
    pub(super) pieces: Vec<Vec<Piece>>,
    /// What they are all like, if they are; then there are no pieces.
    pub(super) uniform: Option<Uniform>,
}

/// What all samples agree on in a column, and how many rows each has.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchColumn {
    /// Type of the elements.
    pub dtype: DType,
    /// Whether each sample is one cell, without a dimension of rows.
    pub squeeze: bool,
    /// Shape of one row.
    pub cell_shape: Shape,
    /// Rows of each sample.
    pub rows: Vec<u32>,
}

impl BatchColumn {
    /// Rows of each sample, if all have as many.
    #[must_use]
    pub fn uniform_rows(&self) -> Option<u32> {
        let first = *self.rows.first()?;
        self.rows.iter().all(|&rows| rows == first).then_some(first)
    }

    /// Elements of all samples; none beyond the address space.
    #[must_use]
    pub fn num_elements(&self) -> Option<usize> {
        let rows: u64 = self.rows.iter().map(|&rows| u64::from(rows)).sum();
        usize::try_from(self.cell_shape.num_elements()?.checked_mul(rows)?).ok()
    }

    /// Bytes of one row; none of strings.
    #[must_use]
    pub fn row_bytes(&self) -> Option<usize> {
        usize::try_from(self.cell_shape.num_elements()?).ok()?.checked_mul(self.dtype.size_bytes()?)
    }

    /// Bytes of the elements of all samples; none of strings.
    #[must_use]
    pub fn size_bytes(&self) -> Option<usize> {
        self.num_elements()?.checked_mul(self.dtype.size_bytes()?)
    }
}

impl Batch {
    /// The batch of `samples`.
    ///
    /// # Errors
    /// The samples, and why they make none: [`BatchError::Differ`] if they differ in number, type or shape of their columns other than in their rows;
    /// [`BatchError::TooLarge`].
    pub fn new(samples: Vec<Sampled>) -> Result<Self, (BatchError, Vec<Sampled>)> {
        let uniform = Uniform::of(&samples);
        let mut batch = Self { samples: Vec::new(), columns: Vec::new(), pieces: Vec::new(), uniform };
        match batch.plan(&samples) {
            Ok(()) => Ok(Self { samples, ..batch }),
            Err(error) => Err((error, samples)),
        }
    }

    fn plan(&mut self, samples: &[Sampled]) -> Result<(), BatchError> {
        match &self.uniform {
            Some(uniform) => {
                let column = |column| BatchColumn::uniform(column, samples.len());
                self.columns = uniform.columns().iter().map(column).collect();
            }
            None => self.add_all(samples)?,
        }
        let is_too_large =
            |column: &BatchColumn| column.dtype != DType::String && column.size_bytes().is_none();
        match self.columns.iter().position(is_too_large) {
            Some(column) => Err(BatchError::TooLarge { column }),
            None => Ok(()),
        }
    }

    fn add_all(&mut self, samples: &[Sampled]) -> Result<(), BatchError> {
        for (number, sample) in samples.iter().enumerate() {
            if number % STAGE == 0 {
                touch(samples.get(number..).unwrap_or_default());
            }
            self.add(number, sample, samples.len())?;
        }
        Ok(())
    }

    /// The samples, without the batch.
    #[must_use]
    pub fn into_samples(self) -> Vec<Sampled> {
        self.samples
    }

    /// The samples.
    #[must_use]
    pub fn samples(&self) -> &[Sampled] {
        &self.samples
    }

    /// The columns; none for a batch of no samples.
    #[must_use]
    pub fn columns(&self) -> &[BatchColumn] {
        &self.columns
    }

    fn add(&mut self, number: usize, sample: &Sampled, expected: usize) -> Result<(), BatchError> {
        let trajectory = &sample.item.trajectory;
        if number == 0 {
            self.columns = trajectory.columns().map(|column| BatchColumn::first(&column, expected)).collect();
            self.pieces = self.columns.iter().map(|_| Vec::with_capacity(expected)).collect();
        }
        if trajectory.num_columns() != self.columns.len() {
            let columns = |count: usize| format!("{count} columns");
            return Err(BatchError::Differ {
                key: sample.item.key,
                column: None,
                expected: columns(self.columns.len()),
                got: columns(trajectory.num_columns()),
            });
        }
        let sides = self.columns.iter_mut().zip(&mut self.pieces).zip(trajectory.columns());
        for (at, ((content, pieces), column)) in sides.enumerate() {
            content.check(at, sample, &column)?;
            content.rows.push(column.rows());
            for slice in column.slices() {
                let index = slice.index as usize;
                let all = column.chunk_of(slice).and_then(|chunk| chunk.rows(index));
                pieces.push(Piece {
                    sample: u32::try_from(number).unwrap_or(u32::MAX),
                    chunk: slice.chunk,
                    index: slice.index,
                    offset: slice.offset,
                    rows: slice.length,
                    is_whole: all == Some(slice.length),
                });
            }
        }
        Ok(())
    }
}

impl BatchColumn {
    fn uniform(column: &UniformColumn, samples: usize) -> Self {
        let UniformColumn { dtype, squeeze, cell_shape, rows } = column;
        Self { dtype: *dtype, squeeze: *squeeze, cell_shape: cell_shape.clone(), rows: vec![*rows; samples] }
    }

    fn first(column: &Column<'_>, samples: usize) -> Self {
        Self {
            dtype: column.dtype(),
            squeeze: column.squeeze(),
            cell_shape: Shape::from(column.cell_shape()),
            rows: Vec::with_capacity(samples),
        }
    }

    fn check(&self, at: usize, sample: &Sampled, column: &Column<'_>) -> Result<(), BatchError> {
        let is_same = self.dtype == column.dtype()
            && self.squeeze == column.squeeze()
            && self.cell_shape.dims() == column.cell_shape();
        if is_same {
            return Ok(());
        }
        Err(BatchError::Differ {
            key: sample.item.key,
            column: Some(at),
            expected: describe(self.dtype, self.squeeze, self.cell_shape.dims()),
            got: describe(column.dtype(), column.squeeze(), column.cell_shape()),
        })
    }
}

fn describe(dtype: DType, squeeze: bool, cell: &[u32]) -> String {
    let shape = Shape::from(cell);
    if squeeze { format!("{dtype}{shape}") } else { format!("rows of {dtype}{shape}") }
}

/// Samples that are looked at side by side: items and chunks lie all over the memory, and the waits for them become one.
const STAGE: usize = 32;

fn touch(samples: &[Sampled]) {
    let stage = samples.get(..STAGE.min(samples.len())).unwrap_or_default();
    for sample in stage {
        black_box(sample.item.key);
    }
    for sample in stage {
        if let Some(chunk) = sample.item.trajectory.chunks().first() {
            black_box((chunk.num_columns(), chunk.key(), chunk.size_bytes()));
        }
    }
}
