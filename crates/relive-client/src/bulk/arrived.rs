//! A batch that was put together by who has the table.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use relive_tensor::{
    Chunk, Codec, PlainLayout, SequenceRange, Shape, Slice, Tensor, Trajectory, TrajectoryBuilder,
    encode_chunk,
};
use relive_wire::bulk::{BatchView, ColumnView, InfoLayout};

use super::ColumnMemory;
use super::memory::BatchMemory;
use crate::batch::ColumnLayout;
use crate::{Error, ErrorKind, Result, SampleInfo};

/// A batch with its data in one piece.
pub(crate) struct Arrived {
    table: Arc<str>,
    view: BatchView,
    infos: Vec<SampleInfo>,
    /// Rows of each sample, of columns in which they differ; empty for the others.
    rows: Vec<Vec<u32>>,
    /// Where more is told of each sample; none of a batch that a table of this process put together.
    told: Option<InfoLayout>,
    memory: Arc<BatchMemory>,
}

impl Arrived {
    /// A batch as its head describes it.
    ///
    /// # Errors
    /// `Protocol` if head and data do not fit each other.
    pub(super) fn new(table: Arc<str>, view: BatchView, memory: BatchMemory) -> Result<Arrived> {
        let data = memory.bytes().get(..view.data_bytes).ok_or_else(|| {
            let text = format!("sample: a batch of {} bytes in less memory", view.data_bytes);
            Error::new(ErrorKind::Protocol, text)
        })?;
        let rows = |column: &ColumnView| match column.rows {
            Some(_) => Ok(Vec::new()),
            None => column.rows_of_each(view.samples, data).map_err(malformed),
        };
        let rows = view.columns.iter().map(rows).collect::<Result<_>>()?;
        let layout = InfoLayout::of(view.samples);
        let infos = (0..view.samples).filter_map(|at| layout.read(data, at)).map(|info| SampleInfo {
            key: info.key,
            probability: info.probability,
            table_size: info.table_size,
            priority: info.priority,
            times_sampled: info.times_sampled,
            rate_limited: info.rate_limited,
        });
        let infos = infos.collect();
        Ok(Arrived { table, infos, rows, told: Some(layout), memory: Arc::new(memory), view })
    }

    /// A batch of items that a table of this process has copied, each `layout`, one behind the other.
    pub(crate) fn copied(
        table: Arc<str>,
        layout: &PlainLayout,
        infos: Vec<SampleInfo>,
        memory: BatchMemory,
    ) -> Arrived {
        let data_bytes = memory.bytes().len();
        let PlainLayout { dtype, cell_shape, rows, squeeze } = layout.clone();
        let column = ColumnView {
            dtype,
            squeeze,
            cell_shape,
            rows: Some(rows),
            rows_at: 0..0,
            data_at: 0..data_bytes,
        };
        let view = BatchView { samples: infos.len(), data_bytes, columns: vec![column] };
        Arrived { table, infos, rows: vec![Vec::new()], told: None, memory: Arc::new(memory), view }
    }

    pub(crate) fn table(&self) -> &str {
        &self.table
    }

    pub(crate) fn infos(&self) -> &[SampleInfo] {
        &self.infos
    }

    pub(crate) fn num_columns(&self) -> usize {
        self.view.columns.len()
    }

    /// Bytes that came, or that were written to shared memory.
    pub(super) fn size_bytes(&self) -> usize {
        self.view.data_bytes
    }

    /// Type and shape of a column, with so many rows.
    pub(crate) fn layout(&self, column: usize, rows: u32) -> Option<ColumnLayout> {
        let view = self.view.columns.get(column)?;
        let rows = (!view.squeeze).then_some(rows);
        Some(ColumnLayout { dtype: view.dtype, rows, cell_shape: view.cell_shape.clone() })
    }

    /// Rows of each sample in a column.
    pub(crate) fn rows(&self, column: usize) -> Vec<u32> {
        match self.view.columns.get(column).and_then(|view| view.rows) {
            Some(rows) => vec![rows; self.view.samples],
            None => self.rows.get(column).cloned().unwrap_or_default(),
        }
    }

    /// Rows of each sample in a column, if all have as many.
    pub(crate) fn uniform_rows(&self, column: usize) -> Option<u32> {
        self.view.columns.get(column)?.rows
    }

    /// A column, sample after sample.
    pub(crate) fn column(&self, column: usize) -> &[u8] {
        let range = self.view.columns.get(column).map_or(0..0, |view| view.data_at.clone());
        self.memory.bytes().get(range).unwrap_or_default()
    }

    /// The memory of a column.
    pub(crate) fn column_memory(&self, column: usize) -> Option<ColumnMemory> {
        let range = self.view.columns.get(column)?.data_at.clone();
        Some(ColumnMemory::new(&self.memory, range))
    }

    pub(crate) fn inserted_at(&self, sample: usize) -> Option<SystemTime> {
        let info = self.told?.read(self.memory.bytes(), sample)?;
        let since = Duration::from_nanos(u64::try_from(info.inserted_at).ok()?);
        SystemTime::UNIX_EPOCH.checked_add(since)
    }

    /// Bytes of a sample's data.
    pub(crate) fn bytes_of(&self, sample: usize) -> usize {
        (0..self.num_columns()).map(|column| self.place(sample, column).len()).sum()
    }

    /// The data of a sample, one tensor per column.
    pub(crate) fn tensors(&self, sample: usize) -> Result<Vec<Tensor>> {
        (0..self.num_columns()).map(|column| self.tensor(sample, column, false)).collect()
    }

    /// The data of a sample as chunks of its own.
    pub(crate) fn trajectory(&self, sample: usize) -> Result<Trajectory> {
        let mut builder = TrajectoryBuilder::new();
        for (column, view) in self.view.columns.iter().enumerate() {
            let tensor = self.tensor(sample, column, true)?;
            let rows = tensor.shape().rows().unwrap_or(1);
            let end = i32::try_from(rows).unwrap_or(i32::MAX) - 1;
            let range = SequenceRange { episode_id: 0, start: 0, end, sparse: false };
            // Distinct within the item; where the steps came from is not told with a batch.
            let parts =
                encode_chunk(column as u64, range, &[tensor], false, Codec::Raw).map_err(malformed)?;
            let chunk = builder.chunk(Arc::new(Chunk::new(parts).map_err(malformed)?));
            builder.begin_column(view.squeeze);
            builder.slice(Slice { chunk, offset: 0, length: rows, index: 0 });
        }
        builder.build().map_err(malformed)
    }

    fn tensor(&self, sample: usize, column: usize, keeps_rows: bool) -> Result<Tensor> {
        let Some(view) = self.view.columns.get(column) else {
            return Err(malformed(format!("there is no column {column}")));
        };
        let shape = if view.squeeze && !keeps_rows {
            view.cell_shape.clone()
        } else {
            Shape::batched(self.rows_of(sample, column), view.cell_shape.dims())
        };
        let data = self.column(column).get(self.place(sample, column)).unwrap_or_default();
        Tensor::new(view.dtype, shape, Bytes::copy_from_slice(data)).map_err(malformed)
    }

    fn rows_of(&self, sample: usize, column: usize) -> u32 {
        let each = || self.rows.get(column).and_then(|rows| rows.get(sample)).copied().unwrap_or(0);
        self.uniform_rows(column).unwrap_or_else(each)
    }

    /// Where a sample's rows lie in a column.
    fn place(&self, sample: usize, column: usize) -> Range<usize> {
        let Some(layout) = self.layout(column, 1) else { return 0..0 };
        let row_bytes = layout.cell_bytes().unwrap_or(0);
        let before: usize = match self.uniform_rows(column) {
            Some(rows) => rows as usize * sample,
            None => {
                let rows = self.rows.get(column).map_or(&[][..], Vec::as_slice);
                rows.iter().take(sample).map(|&rows| rows as usize).sum()
            }
        };
        let start = before * row_bytes;
        start..start + self.rows_of(sample, column) as usize * row_bytes
    }
}

fn malformed(error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Protocol, format!("sample: the server's batch cannot be read: {error}"))
}
