//! Sampled items, and what each column of their batch consists of: the plan.

use std::hint::black_box;

use relive_table::Sampled;
use relive_tensor::{Column, ColumnLayout, DType, Shape};

use super::BatchError;
use super::piece::{Piece, is_direct};
use super::uniform::Uniform;

/// Sampled items as columns `[samples, rows, ..cell]`; nothing is decoded before it is asked for.
#[derive(Debug)]
pub struct Batch {
    pub(super) samples: Vec<Sampled>,
    columns: Vec<BatchColumn>,
    /// Column by column, in each sample by sample; none of a uniform batch.
    pub(super) pieces: Vec<Vec<Piece>>,
    pub(super) is_uniform: bool,
}

/// What all samples agree on in a column, and how many rows each has.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchColumn {
    /// Type and shape; of samples that differ in their number of rows, with as many as the longest has.
    pub layout: ColumnLayout,
    /// Rows of each sample, if they differ.
    pub lengths: Option<Vec<u32>>,
}

impl BatchColumn {
    /// A column of which all samples have as many rows.
    #[must_use]
    pub fn even(layout: ColumnLayout) -> Self {
        Self { layout, lengths: None }
    }

    /// Rows of each of `samples`, 1 if it is squeezed.
    #[must_use]
    pub fn rows(&self, samples: usize) -> Vec<u32> {
        self.lengths.clone().unwrap_or_else(|| vec![self.layout.rows.unwrap_or(1); samples])
    }

    /// Bytes of the elements of all samples, one behind the other; none of strings, and beyond the address space.
    #[must_use]
    pub fn size_bytes(&self, samples: usize) -> Option<usize> {
        let Some(lengths) = &self.lengths else { return self.layout.size_bytes(samples) };
        let rows: u64 = lengths.iter().map(|&rows| u64::from(rows)).sum();
        self.layout.cell_bytes()?.checked_mul(usize::try_from(rows).ok()?)
    }
}

impl Batch {
    /// The batch of `samples`.
    ///
    /// # Errors
    /// The samples, and why they make none: [`BatchError::Differ`] if they differ in number, type or shape of their columns other than in
    /// their rows; [`BatchError::TooLarge`].
    pub fn new(samples: Vec<Sampled>) -> Result<Self, (BatchError, Vec<Sampled>)> {
        let mut batch =
            Self { samples: Vec::new(), columns: Vec::new(), pieces: Vec::new(), is_uniform: false };
        match batch.plan(&samples) {
            Ok(()) => Ok(Self { samples, ..batch }),
            Err(error) => Err((error, samples)),
        }
    }

    fn plan(&mut self, samples: &[Sampled]) -> Result<(), BatchError> {
        if let Some(uniform) = Uniform::of(samples) {
            self.columns = uniform.into_columns().map(BatchColumn::even).collect();
            self.is_uniform = true;
        } else {
            self.add_all(samples)?;
        }
        let is_too_large = |column: &BatchColumn| {
            column.layout.dtype != DType::String
                && (column.layout.size_bytes(samples.len()).is_none()
                    || column.size_bytes(samples.len()).is_none())
        };
        match self.columns.iter().position(is_too_large) {
            Some(column) => Err(BatchError::TooLarge { column }),
            None => Ok(()),
        }
    }

    fn add_all(&mut self, samples: &[Sampled]) -> Result<(), BatchError> {
        let mut rows: Vec<Vec<u32>> = Vec::new();
        for (number, sample) in samples.iter().enumerate() {
            if number % STAGE == 0 {
                touch(samples.get(number..).unwrap_or_default());
            }
            if number == 0 {
                let columns = sample.item.trajectory.columns();
                self.columns = columns.map(|column| BatchColumn::even(layout_of(&column))).collect();
                self.pieces = self.columns.iter().map(|_| Vec::with_capacity(samples.len())).collect();
                rows = self.columns.iter().map(|_| Vec::with_capacity(samples.len())).collect();
            }
            self.add(number, sample, &mut rows)?;
        }
        for (column, rows) in self.columns.iter_mut().zip(rows) {
            let most = rows.iter().copied().max().unwrap_or(1);
            if rows.iter().any(|&rows| rows != most) {
                column.layout = column.layout.with_rows(most);
                column.lengths = Some(rows);
            }
        }
        Ok(())
    }

    fn add(&mut self, number: usize, sample: &Sampled, rows: &mut [Vec<u32>]) -> Result<(), BatchError> {
        let trajectory = &sample.item.trajectory;
        if trajectory.num_columns() != self.columns.len() {
            let columns = |count: usize| format!("{count} columns");
            return Err(BatchError::Differ {
                key: sample.item.key,
                column: None,
                expected: columns(self.columns.len()),
                got: columns(trajectory.num_columns()),
            });
        }
        let sides = self.columns.iter().zip(&mut self.pieces).zip(rows).zip(trajectory.columns());
        for (at, (((content, pieces), rows), column)) in sides.enumerate() {
            check(&content.layout, at, sample, &column)?;
            rows.push(column.rows());
            for slice in column.slices() {
                let index = slice.index as usize;
                let chunk = column.chunk_of(slice);
                pieces.push(Piece {
                    sample: u32::try_from(number).unwrap_or(u32::MAX),
                    chunk: slice.chunk,
                    index: slice.index,
                    offset: slice.offset,
                    rows: slice.length,
                    is_direct: chunk.is_some_and(|chunk| is_direct(chunk, index, slice.length)),
                });
            }
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
}

fn layout_of(column: &Column<'_>) -> ColumnLayout {
    ColumnLayout::new(column.dtype(), column.squeeze(), column.rows(), column.cell_shape())
}

/// Holds a column of a sample to what it is in those before, whatever its rows.
fn check(layout: &ColumnLayout, at: usize, sample: &Sampled, column: &Column<'_>) -> Result<(), BatchError> {
    if layout.is_kind(column.dtype(), column.squeeze(), column.cell_shape()) {
        return Ok(());
    }
    Err(BatchError::Differ {
        key: sample.item.key,
        column: Some(at),
        expected: describe(layout.dtype, layout.rows.is_none(), layout.cell_shape.dims()),
        got: describe(column.dtype(), column.squeeze(), column.cell_shape()),
    })
}

fn describe(dtype: DType, squeeze: bool, cell: &[u32]) -> String {
    let shape = Shape::from(cell);
    if squeeze { format!("{dtype}{shape}") } else { format!("rows of {dtype}{shape}") }
}

/// Samples that are looked at side by side: items and chunks lie all over the memory, and the waits for them become one.
const STAGE: usize = 32;

/// Chunks of each item that are fetched ahead: with more, those of other items would leave the cache before they are read.
const TOUCHED_CHUNKS: usize = 4;

fn touch(samples: &[Sampled]) {
    let stage = samples.get(..STAGE.min(samples.len())).unwrap_or_default();
    for sample in stage {
        black_box(sample.item.key);
    }
    let chunks =
        || stage.iter().flat_map(|sample| sample.item.trajectory.chunks().iter().take(TOUCHED_CHUNKS));
    for chunk in chunks() {
        black_box((chunk.num_columns(), chunk.is_delta_encoded()));
    }
    for header in chunks().flat_map(|chunk| chunk.columns().first().into_iter().chain(chunk.columns().last()))
    {
        black_box(header.rows());
    }
}
