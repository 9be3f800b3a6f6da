//! The plan of a collection, as numbers from which both the CPU and a GPU work.

use relive_tensor::DType;

use super::convert::{Convert, pad_bytes};
use super::window::{Pad, Window, span};
use crate::bytes::{narrow, wide};
use crate::error::{Error, Result};
use crate::memory::layout::round_up;
use crate::memory::segment::Segment;
use crate::schema::Schema;

/// Every column of a batch starts at a multiple of this, as JAX and CUDA require.
pub const OUTPUT_ALIGNMENT: u64 = 256;
/// The maximum number of windows in a batch.
pub const MAX_WINDOWS: usize = 1024;

/// One window of a batch: the source and destination of its steps.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnPlan {
    /// The column's position in the schema.
    pub column: usize,
    /// The number of bytes between rows of the column's table.
    pub stride: u64,
    /// The number of bytes of a step in the table.
    pub step_bytes: u64,
    /// The number of elements of a step.
    pub step_elements: u64,
    /// The window.
    pub offset: i64,
    /// The number of steps in the window.
    pub length: u64,
    /// The side on which padding is placed.
    pub pad: Pad,
    /// One element of padding, in the first bytes; the batch's element type sets their number.
    pub pad_element: [u8; 16],
    /// The type of the elements in the batch.
    pub dtype: DType,
    /// The conversion, if the type or the scale differs from the table's.
    pub convert: Option<Convert>,
    /// The number of bytes of a step in the batch.
    pub output_step_bytes: u64,
    /// The offset of the window's first row in the batch's memory; rows are contiguous.
    pub output_at: u64,
}

/// A row of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowPlan {
    /// The row's number in the tables of this rank.
    pub row: u64,
    /// The current step.
    pub step: u64,
    /// The number of steps of its trajectory.
    pub length: u64,
    /// The trajectory's row in the batch.
    pub at: u64,
}

/// The layout of a batch of up to `rows` rows: its windows, and the size of its memory.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchPlan {
    /// The maximum number of rows.
    pub rows: u64,
    /// The windows of the batch.
    pub columns: Vec<ColumnPlan>,
    /// The number of bytes in a batch's memory.
    pub bytes: u64,
}

impl BatchPlan {
    /// Creates the plan of batches with the given windows.
    ///
    /// # Errors
    /// A window has an unknown column, no steps, an impossible cast, or a padding value that its type cannot represent;
    /// `rows` is 0; or a batch has 2^63 bytes or more.
    pub(crate) fn new(segment: &Segment, windows: &[Window], rows: u64) -> Result<Self> {
        if rows == 0 || windows.is_empty() || windows.len() > MAX_WINDOWS {
            return Err(Error::invalid(format!(
                "a batch must have at least 1 row and 1 to {MAX_WINDOWS} windows, got {rows} rows and {} windows",
                windows.len()
            )));
        }
        let mut bytes = 0;
        let mut columns = Vec::with_capacity(windows.len());
        for window in windows {
            let mut column = column(segment, window)?;
            column.output_at = bytes;
            bytes = end(&column, rows).ok_or_else(|| {
                Error::invalid(format!(
                    "batches of {rows} rows of {} steps of {:?} are too large",
                    window.length, window.column
                ))
            })?;
            columns.push(column);
        }
        Ok(Self { rows, columns, bytes })
    }

    /// Returns the shape of a window's column in a batch of `rows` rows.
    #[must_use]
    pub fn shape(&self, schema: &Schema, window: usize, rows: u64) -> Vec<u64> {
        let plan = &self.columns[window];
        let step = &schema.columns()[plan.column].shape;
        [rows, plan.length].into_iter().chain(step.iter().copied()).collect()
    }

    /// Returns the maximum number of bytes of one row in a batch.
    pub(crate) fn row_bytes(&self) -> u64 {
        self.columns.iter().map(|column| column.length * column.output_step_bytes).sum()
    }
}

fn column(segment: &Segment, window: &Window) -> Result<ColumnPlan> {
    let schema = segment.schema();
    let column = schema.position(&window.column)?;
    if window.length == 0 {
        return Err(Error::invalid(format!("the window of column {:?} has no steps", window.column)));
    }
    let source = &schema.columns()[column];
    let convert = window.cast.map(|cast| Convert::new(source, cast)).transpose()?.flatten();
    let dtype = window.cast.map_or(source.dtype, |cast| cast.to);
    let step_elements = source.step_elements().expect("checked by the schema");
    let element = wide(dtype.size_bytes().expect("a type of fixed size"));
    let (table, _) = segment.table(column);
    Ok(ColumnPlan {
        column,
        stride: table.stride,
        step_bytes: table.step_bytes,
        step_elements,
        offset: window.offset,
        length: window.length,
        pad: window.pad,
        pad_element: pad_bytes(dtype, window.pad_value, &window.column)?,
        dtype,
        convert,
        output_step_bytes: step_elements * element,
        output_at: 0,
    })
}

/// Returns the end of a column's memory in a batch, rounded up.
fn end(column: &ColumnPlan, rows: u64) -> Option<u64> {
    let bytes = rows.checked_mul(column.length)?.checked_mul(column.output_step_bytes)?;
    round_up(column.output_at.checked_add(bytes)?, OUTPUT_ALIGNMENT).filter(|&end| end <= i64::MAX as u64)
}

impl ColumnPlan {
    /// Returns the number of the window's steps that exist, at a step of a trajectory of `length` steps; the others are
    /// padding.
    #[must_use]
    pub fn valid_steps(&self, step: u64, length: u64) -> u64 {
        span(step, length, self.offset, self.length, self.pad).count
    }

    /// Returns the bytes of one padding element.
    pub(crate) fn pad_element(&self) -> &[u8] {
        &self.pad_element[..narrow(self.output_step_bytes / self.step_elements)]
    }
}
