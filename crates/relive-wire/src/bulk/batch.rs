//! Validated heads of batches.

use std::ops::Range;

use relive_tensor::{ColumnLayout, Shape};

use super::{ALIGNMENT, InfoLayout};
use crate::limits::MAX_BULK_SAMPLES;
use crate::v1::{BatchColumn, BatchHead};
use crate::{WireError, dtype};

/// The layout of a batch's data. All ranges are within the data.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchView {
    /// The number of samples, at least one.
    pub samples: usize,
    /// The number of bytes in the data.
    pub data_bytes: usize,
    /// Its columns.
    pub columns: Vec<ColumnView>,
}

/// A column of a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnView {
    /// The type and shape. The number of rows is omitted if it differs between samples.
    pub layout: ColumnLayout,
    /// The range of the numbers of rows, as uint32, if they differ between samples.
    pub rows_at: Option<Range<usize>>,
    /// The range of the elements, sample by sample.
    pub data_at: Range<usize>,
}

impl BatchView {
    /// Parses a head.
    ///
    /// # Errors
    /// [`WireError::Batch`] for an inconsistent head. [`ColumnView::rows_of_each`] checks the numbers of rows of
    /// individual samples.
    pub fn new(head: &BatchHead) -> Result<Self, WireError> {
        let samples = usize::try_from(head.samples).unwrap_or(usize::MAX);
        if samples == 0 || samples > MAX_BULK_SAMPLES {
            return Err(wrong(format!("{samples} samples; the number must be 1 to {MAX_BULK_SAMPLES}")));
        }
        let data_bytes = usize::try_from(head.data_bytes).unwrap_or(usize::MAX);
        let infos = InfoLayout::of(samples).size_bytes();
        if data_bytes < infos {
            return Err(wrong(format!(
                "{data_bytes} bytes, but the information about samples needs {infos}"
            )));
        }
        let column = |(number, column)| {
            ColumnView::new(column, samples, data_bytes)
                .map_err(|reason| wrong(format!("column {number}: {reason}")))
        };
        let columns = head.columns.iter().enumerate().map(column).collect::<Result<_, _>>()?;
        Ok(Self { samples, data_bytes, columns })
    }
}

impl ColumnView {
    fn new(column: &BatchColumn, samples: usize, data_bytes: usize) -> Result<Self, String> {
        let dtype = dtype::from_wire(i64::from(column.dtype))
            .ok_or_else(|| format!("data type {} is unknown", column.dtype))?;
        let cell_shape = Shape::from(column.cell_shape.as_slice());
        let within = |offset: u64, len: usize| {
            let start = usize::try_from(offset).ok()?;
            let end = start.checked_add(len)?;
            (end <= data_bytes).then_some(start..end)
        };
        if !column.offset.is_multiple_of(ALIGNMENT as u64) {
            return Err(format!(
                "its data starts at {}, which is not a multiple of {ALIGNMENT}",
                column.offset
            ));
        }
        let beyond = || format!("its data is beyond the {data_bytes} bytes of the batch");
        let bytes = usize::try_from(column.bytes).map_err(|_| beyond())?;
        let data_at = within(column.offset, bytes).ok_or_else(beyond)?;
        let each = samples.checked_mul(size_of::<u32>()).ok_or_else(beyond)?;
        let rows_at = match column.rows_offset {
            Some(offset) => Some(within(offset, each).ok_or_else(beyond)?),
            None => None,
        };
        let rows = if rows_at.is_some() { 0 } else { column.rows };
        let layout = ColumnLayout::new(dtype, column.squeeze, rows, cell_shape.dims());
        let view = Self { layout, rows_at, data_at };
        if view.rows_at.is_none() && rows == 0 {
            return Err("no rows".to_owned());
        }
        if dtype.size_bytes().is_none() {
            return Err("strings, which batches do not support".to_owned());
        }
        if view.rows_at.is_none() && view.layout.size_bytes(samples) != Some(bytes) {
            return Err(format!("{bytes} bytes, which do not match its shape"));
        }
        Ok(view)
    }

    /// Returns the number of rows of each sample, for a batch of `samples` with the given data, or `None` if all
    /// samples have the same number of rows.
    ///
    /// # Errors
    /// [`WireError::Batch`] if the numbers do not match the size of the column.
    pub fn rows_of_each(&self, samples: usize, data: &[u8]) -> Result<Option<Vec<u32>>, WireError> {
        let Some(rows_at) = &self.rows_at else { return Ok(None) };
        let numbers = data.get(rows_at.clone()).unwrap_or_default();
        let rows: Vec<u32> = numbers.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
        let all: u64 = rows.iter().map(|&rows| u64::from(rows)).sum();
        let expected = self.layout.cell_bytes().and_then(|bytes| (bytes as u64).checked_mul(all));
        let fits = expected == Some(self.data_at.len() as u64);
        if rows.len() == samples && fits && rows.iter().all(|&rows| rows > 0) {
            return Ok(Some(rows));
        }
        Err(wrong("the rows of the samples do not match their data".to_owned()))
    }
}

fn wrong(reason: String) -> WireError {
    WireError::Batch { reason }
}
