//! Sampled items, and the plan of their batch: the pieces of each column.

use relive_table::Sampled;
use relive_tensor::{Column, ColumnLayout, DType, Shape};

use super::BatchError;
use super::kind::{Kind, Piece, STAGE, prefetch};

/// Sampled items as columns `[samples, rows, ..cell]`. Data is decoded only on request.
#[derive(Debug, Default)]
pub struct Batch {
    pub(super) samples: Vec<Sampled>,
    columns: Vec<BatchColumn>,
    pub(super) kinds: Vec<Kind>,
    /// The index in `kinds` of each sample's kind. Empty if all samples are of the first kind.
    kind_of: Vec<u32>,
}

/// The common layout of all samples in a column, and the number of rows of each sample.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchColumn {
    /// The type and shape of the column. If samples differ in their number of rows, the shape contains the largest
    /// number.
    pub layout: ColumnLayout,
    /// The number of rows of each sample, if the numbers differ.
    pub lengths: Option<Vec<u32>>,
}

impl BatchColumn {
    /// Returns a column in which all samples have the same number of rows.
    #[must_use]
    pub fn even(layout: ColumnLayout) -> Self {
        Self { layout, lengths: None }
    }

    /// Returns the number of rows of each of `samples`, which is 1 if the column is squeezed.
    #[must_use]
    pub fn rows(&self, samples: usize) -> Vec<u32> {
        self.lengths.clone().unwrap_or_else(|| vec![self.layout.rows.unwrap_or(1); samples])
    }

    /// Returns the total number of bytes in the elements of all samples, or `None` for strings, and for sizes beyond
    /// the address space.
    #[must_use]
    pub fn size_bytes(&self, samples: usize) -> Option<usize> {
        let Some(lengths) = &self.lengths else { return self.layout.size_bytes(samples) };
        let rows: u64 = lengths.iter().map(|&rows| u64::from(rows)).sum();
        self.layout.cell_bytes()?.checked_mul(usize::try_from(rows).ok()?)
    }
}

impl Batch {
    /// Creates the batch of `samples`.
    ///
    /// # Errors
    /// Returns the samples and the reason why they cannot form a batch: [`BatchError::Differ`] if their columns differ
    /// in number, type or shape (other than in the number of rows), or [`BatchError::TooLarge`].
    pub fn new(samples: Vec<Sampled>) -> Result<Self, (BatchError, Vec<Sampled>)> {
        let mut batch = Self::default();
        match batch.plan(&samples) {
            Ok(()) => Ok(Self { samples, ..batch }),
            Err(error) => Err((error, samples)),
        }
    }

    fn plan(&mut self, samples: &[Sampled]) -> Result<(), BatchError> {
        for (stage, first) in samples.chunks(STAGE).zip((0..).step_by(STAGE)) {
            prefetch(stage);
            for (sample, number) in stage.iter().zip(first..) {
                self.add(samples, sample, number)?;
            }
        }
        self.note_lengths(samples.len());
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

    /// Finds the kind of sample `number`, or adds it.
    fn add(&mut self, samples: &[Sampled], sample: &Sampled, number: usize) -> Result<(), BatchError> {
        let recent = self.kinds.iter().enumerate().rev().take(RECENT_KINDS);
        let known = recent.filter(|(_, kind)| kind.is_of(samples, sample)).map(|(at, _)| at).next();
        let kind = match known {
            Some(kind) => kind,
            None => {
                if number == 0 {
                    let columns = sample.item.trajectory.columns();
                    self.columns = columns.map(|column| BatchColumn::even(layout_of(&column))).collect();
                }
                self.check(sample)?;
                self.kinds.push(Kind::of(sample, number));
                self.kinds.len() - 1
            }
        };
        if kind > 0 && self.kind_of.is_empty() {
            self.kind_of = vec![0; number];
        }
        if kind > 0 || !self.kind_of.is_empty() {
            self.kind_of.push(u32::try_from(kind).unwrap_or(u32::MAX));
        }
        Ok(())
    }

    /// Checks the columns of a sample against the earlier ones, ignoring the number of rows.
    fn check(&self, sample: &Sampled) -> Result<(), BatchError> {
        let (trajectory, key) = (&sample.item.trajectory, sample.item.key);
        if trajectory.num_columns() != self.columns.len() {
            let columns = |count: usize| format!("{count} columns");
            let (expected, got) = (columns(self.columns.len()), columns(trajectory.num_columns()));
            return Err(BatchError::Differ { key, column: None, expected, got });
        }
        for (at, (known, column)) in self.columns.iter().zip(trajectory.columns()).enumerate() {
            let (dtype, squeeze, cell) = (column.dtype(), column.squeeze(), column.cell_shape());
            let layout = &known.layout;
            if !layout.is_kind(dtype, squeeze, cell) {
                let expected = describe(layout.dtype, layout.rows.is_none(), layout.cell_shape.dims());
                let got = describe(dtype, squeeze, cell);
                return Err(BatchError::Differ { key, column: Some(at), expected, got });
            }
        }
        Ok(())
    }

    /// Records the number of rows of each sample, for columns in which this number differs between samples.
    fn note_lengths(&mut self, samples: usize) {
        for (at, column) in self.columns.iter_mut().enumerate() {
            let rows = |kind: &Kind| kind.rows(at);
            let most = self.kinds.iter().map(rows).max().unwrap_or(1);
            if self.kinds.iter().any(|kind| kind.rows(at) != most) {
                let kind_of = |sample| self.kind_of.get(sample).map_or(0, |kind| *kind as usize);
                let lengths = (0..samples).filter_map(|sample| self.kinds.get(kind_of(sample)).map(rows));
                column.lengths = Some(lengths.collect());
                column.layout = column.layout.with_rows(most);
            }
        }
    }

    /// Returns the kind of a sample.
    pub(super) fn kind(&self, sample: usize) -> Option<&Kind> {
        let kind = self.kind_of.get(sample).map_or(0, |kind| *kind as usize);
        self.kinds.get(kind)
    }

    /// Returns the samples.
    #[must_use]
    pub fn into_samples(self) -> Vec<Sampled> {
        self.samples
    }

    /// The samples.
    #[must_use]
    pub fn samples(&self) -> &[Sampled] {
        &self.samples
    }

    /// Returns the columns. A batch without samples has none.
    #[must_use]
    pub fn columns(&self) -> &[BatchColumn] {
        &self.columns
    }

    /// Returns the pieces of a column, sample by sample.
    pub(crate) fn pieces(&self, column: usize) -> impl Iterator<Item = (&Sampled, &Piece)> {
        self.samples.iter().enumerate().flat_map(move |(number, sample)| {
            let pieces = self.kind(number).map_or(&[][..], |kind| kind.pieces(column));
            pieces.iter().map(move |piece| (sample, piece))
        })
    }
}

fn layout_of(column: &Column<'_>) -> ColumnLayout {
    ColumnLayout::new(column.dtype(), column.squeeze(), column.rows(), column.cell_shape())
}

fn describe(dtype: DType, squeeze: bool, cell: &[u32]) -> String {
    let shape = Shape::from(cell);
    if squeeze { format!("{dtype}{shape}") } else { format!("rows of {dtype}{shape}") }
}

/// The number of recent kinds that are compared with the next sample. If there are more kinds, for example because
/// episodes differ in length, few of them repeat.
const RECENT_KINDS: usize = 16;
