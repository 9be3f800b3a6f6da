//! A batch with its columns in one block of memory.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use relive_table::Timestamp;
use relive_tensor::{
    Chunk, Codec, ColumnLayout, SequenceRange, Shape, Slice, Tensor, Trajectory, TrajectoryBuilder,
    encode_chunk,
};

use super::memory::{ALIGNMENT, BatchMemory, ColumnMemory};
use super::{BatchColumn, BatchError, SampleInfo};

/// A batch with its data in one block.
pub struct Gathered {
    table: Arc<str>,
    infos: Vec<SampleInfo>,
    /// The insertion time of each item.
    inserted_at: Vec<Timestamp>,
    columns: Arc<[GatheredColumn]>,
    /// For each column whose samples differ in length, the number of rows that precede each sample.
    rows_before: Vec<Vec<usize>>,
    memory: Arc<BatchMemory>,
}

/// A column, and the location of its data, sample by sample, in the memory of its batch.
#[derive(Debug, Clone, PartialEq)]
pub struct GatheredColumn {
    /// Its layout.
    pub column: BatchColumn,
    /// The range of the column's bytes.
    pub at: Range<usize>,
}

impl Gathered {
    /// Returns a batch of `table` with its data in `memory`.
    #[must_use]
    pub fn new(
        table: Arc<str>,
        infos: Vec<SampleInfo>,
        inserted_at: Vec<Timestamp>,
        columns: impl Into<Arc<[GatheredColumn]>>,
        memory: BatchMemory,
    ) -> Gathered {
        let columns = columns.into();
        let before = |column: &GatheredColumn| {
            let lengths = column.column.lengths.iter().flatten();
            lengths.scan(0, |rows, &length| Some(std::mem::replace(rows, *rows + length as usize))).collect()
        };
        let rows_before = columns.iter().map(before).collect();
        Gathered { table, infos, inserted_at, columns, rows_before, memory: Arc::new(memory) }
    }

    /// Places the columns of `samples` samples one after the other, aligned. Returns them with their total number of
    /// bytes, or `None` for strings, and for sizes beyond the address space.
    #[must_use]
    pub fn place(layouts: &[ColumnLayout], samples: usize) -> Option<(Arc<[GatheredColumn]>, usize)> {
        let (mut columns, mut len) = (Vec::with_capacity(layouts.len()), 0_usize);
        for layout in layouts {
            let end = len.checked_add(layout.size_bytes(samples)?)?;
            columns.push(GatheredColumn { column: BatchColumn::even(layout.clone()), at: len..end });
            len = end.checked_next_multiple_of(ALIGNMENT)?;
        }
        Some((columns.into(), len))
    }

    /// Returns the table from which the batch's items were sampled.
    #[must_use]
    pub fn table(&self) -> &Arc<str> {
        &self.table
    }

    /// Returns the sampling information of each sample.
    #[must_use]
    pub fn infos(&self) -> &[SampleInfo] {
        &self.infos
    }

    /// Returns the insertion time of an item, or `None` beyond the last item.
    #[must_use]
    pub fn inserted_at(&self, sample: usize) -> Option<Timestamp> {
        self.inserted_at.get(sample).copied()
    }

    /// Returns the layout and place of each column.
    #[must_use]
    pub fn columns(&self) -> &[GatheredColumn] {
        &self.columns
    }

    /// Returns a column, sample by sample.
    #[must_use]
    pub fn column(&self, column: usize) -> &[u8] {
        let range = self.columns.get(column).map_or(0..0, |column| column.at.clone());
        self.memory.bytes().get(range).unwrap_or_default()
    }

    /// Returns the memory of a column.
    #[must_use]
    pub fn column_memory(&self, column: usize) -> Option<ColumnMemory> {
        Some(ColumnMemory::new(&self.memory, self.columns.get(column)?.at.clone()))
    }

    /// Returns the number of bytes in a sample's data.
    #[must_use]
    pub fn bytes_of(&self, sample: usize) -> usize {
        (0..self.columns.len()).map(|column| self.span(sample, column).len()).sum()
    }

    /// Returns the data of a sample, one tensor per column.
    ///
    /// # Errors
    /// [`BatchError::Unreadable`] if bytes do not match their column's layout.
    pub fn tensors(&self, sample: usize) -> Result<Vec<Tensor>, BatchError> {
        (0..self.columns.len()).map(|column| self.tensor(sample, column, false)).collect()
    }

    /// Returns the data of a sample as a new chunk.
    ///
    /// # Errors
    /// The errors of [`tensors`](Self::tensors).
    pub fn trajectory(&self, sample: usize) -> Result<Trajectory, BatchError> {
        let tensors = (0..self.columns.len()).map(|column| self.tensor(sample, column, true));
        let tensors = tensors.collect::<Result<Vec<_>, _>>()?;
        let steps = tensors.iter().filter_map(|tensor| tensor.shape().rows()).max().unwrap_or(1);
        // A batch does not record which episode and steps its rows came from.
        let end = i32::try_from(steps).unwrap_or(i32::MAX) - 1;
        let range = SequenceRange { episode_id: 0, start: 0, end, sparse: false };
        let parts = encode_chunk(0, range, &tensors, false, Codec::Raw).map_err(unreadable)?;
        let mut builder = TrajectoryBuilder::new();
        let chunk = builder.chunk(Arc::new(Chunk::new(parts).map_err(unreadable)?));
        for ((GatheredColumn { column, .. }, tensor), index) in self.columns.iter().zip(&tensors).zip(0..) {
            builder.begin_column(column.layout.rows.is_none());
            let length = tensor.shape().rows().unwrap_or(1);
            builder.slice(Slice { chunk, offset: 0, length, index });
        }
        builder.build().map_err(unreadable)
    }

    fn tensor(&self, sample: usize, column: usize, keeps_rows: bool) -> Result<Tensor, BatchError> {
        let Some(GatheredColumn { column: described, .. }) = self.columns.get(column) else {
            return Err(unreadable(format!("there is no column {column}")));
        };
        let ColumnLayout { dtype, rows, cell_shape } = &described.layout;
        let shape = if rows.is_none() && !keeps_rows {
            cell_shape.clone()
        } else {
            Shape::batched(self.rows_of(sample, column), cell_shape.dims())
        };
        let data = self.column(column).get(self.span(sample, column)).unwrap_or_default();
        Tensor::new(*dtype, shape, Bytes::copy_from_slice(data)).map_err(unreadable)
    }

    fn rows_of(&self, sample: usize, column: usize) -> u32 {
        let Some(GatheredColumn { column, .. }) = self.columns.get(column) else { return 0 };
        match &column.lengths {
            Some(lengths) => lengths.get(sample).copied().unwrap_or(0),
            None => column.layout.rows.unwrap_or(1),
        }
    }

    /// Returns the range of a sample's rows in a column.
    fn span(&self, sample: usize, column: usize) -> Range<usize> {
        let Some(GatheredColumn { column: described, .. }) = self.columns.get(column) else { return 0..0 };
        let row_bytes = described.layout.cell_bytes().unwrap_or(0);
        let before: usize = match &described.lengths {
            Some(_) => self.rows_before.get(column).and_then(|rows| rows.get(sample)).copied().unwrap_or(0),
            None => described.layout.rows.unwrap_or(1) as usize * sample,
        };
        let start = before * row_bytes;
        start..start + self.rows_of(sample, column) as usize * row_bytes
    }

    /// Copies the rows of a column to a destination with room for `rows` rows per sample. The room beyond a sample's
    /// rows is left unchanged.
    ///
    /// # Errors
    /// [`BatchError::Destination`] if the size differs.
    pub fn pad_into(&self, column: usize, rows: u32, out: &mut [u8]) -> Result<(), BatchError> {
        let row_bytes =
            self.columns.get(column).and_then(|column| column.column.layout.cell_bytes()).unwrap_or(0);
        let room = row_bytes * rows as usize;
        let (expected, got) = (room * self.infos.len(), out.len());
        if expected != got {
            return Err(BatchError::Destination { column, expected, got });
        }
        let data = self.column(column);
        for (sample, out) in out.chunks_mut(room.max(1)).enumerate().take(self.infos.len()) {
            let mine = data.get(self.span(sample, column)).unwrap_or_default();
            if let Some(out) = out.get_mut(..mine.len()) {
                out.copy_from_slice(mine);
            }
        }
        Ok(())
    }
}

fn unreadable(error: impl std::fmt::Display) -> BatchError {
    BatchError::Unreadable(error.to_string())
}
