//! A column of an item, which consists of cells of the history, in any order and possibly repeated.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use relive_connection::{Error, ErrorKind, Result};
use relive_tensor::{DType, Shape, Tensor};
use smallvec::SmallVec;

use crate::chunks::ChunkRef;

/// Consecutive rows of a chunk. The run keeps the chunk marked as needed.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) chunk: ChunkRef,
    pub(crate) offset: u32,
    pub(crate) length: u32,
}

/// The cells of a column, in order. Most columns are one run.
pub(crate) type Runs = SmallVec<[Run; 1]>;

/// Appends cells. Rows of a chunk that are not consecutive form separate runs.
pub(crate) fn push_run(runs: &mut Runs, chunk: &ChunkRef, offset: u32, length: u32) {
    match runs.last_mut() {
        Some(last) if last.chunk.is(chunk) && last.offset + last.length == offset => last.length += length,
        Some(_) | None => runs.push(Run { chunk: chunk.clone(), offset, length }),
    }
}

/// The type and shape of all values of a column, which its first value determines.
#[derive(Debug)]
pub(crate) struct CellSpec {
    /// The writer to which the column belongs.
    pub(crate) writer_id: u64,
    /// The column's number in that writer.
    pub(crate) index: usize,
    /// The path of the column in the step, joined by `/`.
    pub(crate) path: Arc<str>,
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
    /// The number of the oldest cell that the history keeps, counted from the column's first cell.
    oldest: AtomicU64,
}

impl CellSpec {
    pub(crate) fn new(writer_id: u64, index: usize, path: Arc<str>, dtype: DType, shape: Shape) -> CellSpec {
        CellSpec { writer_id, index, path, dtype, shape, oldest: AtomicU64::new(0) }
    }

    /// Records that cells before `number` are no longer kept.
    pub(crate) fn forget_before(&self, number: u64) {
        self.oldest.store(number, Ordering::Release);
    }

    pub(crate) fn keeps(&self, number: u64) -> bool {
        number >= self.oldest.load(Ordering::Acquire)
    }
}

/// A column of an item to be created: references to steps in a writer's history.
///
/// [`ColumnHistory`](crate::ColumnHistory) creates columns. A column keeps the data that it refers to alive, even after
/// the history has dropped those steps.
///
/// # Example
///
/// ```
/// use relive_client::{Client, Column, Nest, Tensor, TrajectoryWriterOptions};
/// # use relive_engine::Engine;
/// # use relive_table::TableConfig;
///
/// # let client = Client::in_process(Engine::builder().table(TableConfig::new("replay")).build()?);
/// let mut writer = client.trajectory_writer(TrajectoryWriterOptions::new(3))?;
/// for reward in [0.0_f32, 0.5, 1.0] {
///     writer.append(&Nest::Leaf(Tensor::scalar(reward)))?;
/// }
/// let rewards = writer.history().column("")?;
/// let ends = Column::concat(&[rewards.step(0)?, rewards.step(-1)?], false)?;
/// assert_eq!((ends.len(), ends.shape().dims()), (2, &[2_u32][..]));
/// assert_eq!(ends.to_tensor()?.to_vec::<f32>()?, [0.0, 1.0]);
/// assert_eq!(rewards.step(-1)?.shape().dims(), [0_u32; 0], "a squeezed column has no leading dimension");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Shape
///
/// `[len, ..cell]`, or `[..cell]` if the column is squeezed. A column has at least one step; a squeezed one has exactly
/// one.
#[derive(Debug, Clone)]
pub struct Column {
    spec: Arc<CellSpec>,
    runs: Runs,
    squeeze: bool,
}

impl Column {
    /// Creates a column of at least one cell, or of exactly one if it is squeezed.
    pub(crate) fn new(spec: Arc<CellSpec>, runs: Runs, squeeze: bool) -> Column {
        Column { spec, runs, squeeze }
    }

    /// Concatenates the steps of all `parts`. With `squeeze`, the parts must have a single step in all, and the result
    /// has no leading dimension.
    ///
    /// The parts may come from different columns of one writer if their types and cell shapes are equal.
    ///
    /// # Errors
    /// `InvalidArgument` for an empty list, parts from several writers, parts with different types or shapes, or more
    /// than one step to squeeze.
    pub fn concat(parts: &[Column], squeeze: bool) -> Result<Column> {
        let Some(first) = parts.first() else {
            return Err(Error::invalid("a column needs at least one step"));
        };
        let mut runs = Runs::new();
        for part in parts {
            first.check_joins(part)?;
            part.runs.iter().for_each(|run| push_run(&mut runs, &run.chunk, run.offset, run.length));
        }
        let column = Column { spec: Arc::clone(&first.spec), runs, squeeze };
        if squeeze && column.len() != 1 {
            let text = format!("only a column of one step can be squeezed; this one has {}", column.len());
            return Err(Error::invalid(text));
        }
        Ok(column)
    }

    fn check_joins(&self, other: &Column) -> Result<()> {
        let (mine, theirs) = (&self.spec, &other.spec);
        if mine.writer_id != theirs.writer_id {
            return Err(Error::invalid(format!(
                "columns {:?} and {:?} belong to different writers",
                mine.path, theirs.path
            )));
        }
        if (mine.dtype, &mine.shape) != (theirs.dtype, &theirs.shape) {
            return Err(Error::invalid(format!(
                "column {:?} holds {} {}, but column {:?} holds {} {}; the steps of an item's column must have the same dtype and shape",
                mine.path, mine.dtype, mine.shape, theirs.path, theirs.dtype, theirs.shape
            )));
        }
        Ok(())
    }

    /// Returns the steps at `positions` of this column, in that order; repeats are allowed. The result has a leading
    /// dimension.
    ///
    /// # Errors
    /// `InvalidArgument` for an empty list, or a position that is not below [`len`](Self::len).
    pub fn subcolumn(&self, positions: &[usize]) -> Result<Column> {
        if positions.is_empty() {
            return Err(Error::invalid(format!(
                "column {:?}: a column needs at least one step",
                self.path()
            )));
        }
        let mut runs = Runs::new();
        for &position in positions {
            let (run, offset) = self.cell(position).ok_or_else(|| {
                let (path, len) = (self.path(), self.len());
                Error::invalid(format!("column {path:?} has {len} steps; there is no step {position}"))
            })?;
            push_run(&mut runs, &run.chunk, offset, 1);
        }
        Ok(Column { spec: Arc::clone(&self.spec), runs, squeeze: false })
    }

    /// Returns the step at `position`. The result has no leading dimension.
    ///
    /// # Errors
    /// `InvalidArgument` for a position that is not below [`len`](Self::len).
    pub fn step_at(&self, position: usize) -> Result<Column> {
        Ok(Column { squeeze: true, ..self.subcolumn(&[position])? })
    }

    /// Returns the run of cell number `position`, and its row in the chunk.
    fn cell(&self, position: usize) -> Option<(&Run, u32)> {
        let mut before = u32::try_from(position).ok()?;
        for run in &self.runs {
            if before < run.length {
                return Some((run, run.offset + before));
            }
            before -= run.length;
        }
        None
    }

    /// Returns the data that a reader of an item with this column would receive. Steps in a chunk that has not been cut
    /// yet are read from the writer's buffer.
    ///
    /// # Errors
    /// `DataLoss` for a chunk that cannot be decoded.
    pub fn to_tensor(&self) -> Result<Tensor> {
        let parts = self.runs.iter().map(|run| run.chunk.rows(run.offset, run.length));
        let parts = parts.collect::<Result<Vec<Tensor>>>().map_err(|error| self.damaged(&error))?;
        let joined = match parts.as_slice() {
            [only] => Ok(only.clone()),
            parts => Tensor::concat(parts),
        };
        let data = if self.squeeze { joined.and_then(|rows| rows.squeeze_leading()) } else { joined };
        data.map_err(|error| self.damaged(&error))
    }

    fn damaged(&self, error: &dyn std::error::Error) -> Error {
        Error::new(ErrorKind::DataLoss, format!("column {:?} cannot be read: {error}", self.path()))
    }

    /// Returns the number of steps, which is at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a column is never empty")]
    pub fn len(&self) -> usize {
        let cells: u64 = self.runs.iter().map(|run| u64::from(run.length)).sum();
        usize::try_from(cells).unwrap_or(usize::MAX)
    }

    /// Returns whether the column has no leading dimension.
    pub fn is_squeezed(&self) -> bool {
        self.squeeze
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DType {
        self.spec.dtype
    }

    /// Returns the shape of one step's value.
    pub fn cell_shape(&self) -> &Shape {
        &self.spec.shape
    }

    /// Returns the shape of the data: `[len, ..cell]`, or `[..cell]` if squeezed.
    pub fn shape(&self) -> Shape {
        let rows = (!self.squeeze).then(|| u32::try_from(self.len()).unwrap_or(u32::MAX));
        item_shape(rows, &self.spec.shape)
    }

    /// Returns the path in the step, joined by `/`.
    pub fn path(&self) -> &str {
        &self.spec.path
    }

    /// Returns the column's number in the writer, in the order of first appearance.
    pub fn index(&self) -> usize {
        self.spec.index
    }

    pub(crate) fn writer_id(&self) -> u64 {
        self.spec.writer_id
    }

    pub(crate) fn runs(&self) -> &[Run] {
        &self.runs
    }
}

/// Returns the shape of an item's column with cells of shape `cell`. Without `rows`, it is the shape of a squeezed
/// column.
pub(crate) fn item_shape(rows: Option<u32>, cell: &Shape) -> Shape {
    rows.into_iter().chain(cell.dims().iter().copied()).collect()
}
