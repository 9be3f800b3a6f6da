//! The validation of a trajectory when it is built.

use super::TrajectoryError;
use super::slice::Slice;
use super::stored::{Column, Columns};
use crate::chunk::ColumnHeader;
use crate::limits::MAX_TRAJECTORY_BYTES;
use crate::shape::Shape;

pub(super) fn trajectory(draft: Columns<'_>) -> Result<(), TrajectoryError> {
    if draft.spans.is_empty() {
        return Err(TrajectoryError::NoColumns);
    }
    let countable = |len: usize| u32::try_from(len).is_ok();
    if !countable(draft.slices.len()) || !countable(draft.chunks.len()) {
        return Err(TrajectoryError::TooManySlices);
    }
    let mut size_bytes = 0_u64;
    for (index, column) in draft.columns().enumerate() {
        let (rows, row_size) = check_column(index, column)?;
        size_bytes = size_bytes.saturating_add(rows.saturating_mul(row_size));
        if size_bytes > MAX_TRAJECTORY_BYTES || u32::try_from(rows).is_err() {
            return Err(TrajectoryError::TooLarge { column: index, rows });
        }
    }
    Ok(())
}

/// Checks a column and returns its number of rows and the size of a row.
fn check_column(index: usize, column: Column<'_>) -> Result<(u64, u64), TrajectoryError> {
    let first = column.slices().next().ok_or(TrajectoryError::EmptyColumn { column: index })?;
    let first = header(index, column, &first)?;
    let mut rows = 0_u64;
    for slice in column.slices() {
        let header = header(index, column, &slice)?;
        check_rows(index, column, &slice, header)?;
        if !header.has_rows_like(first) {
            return Err(mixed(index, column, &slice, first, header));
        }
        rows += u64::from(slice.length);
    }
    if column.squeeze() && rows != 1 {
        return Err(TrajectoryError::Squeeze { column: index, rows });
    }
    Ok((rows, first.row_size()))
}

/// Returns the header of the tensor to which a slice refers, if that tensor exists.
fn header<'a>(index: usize, column: Column<'a>, slice: &Slice) -> Result<&'a ColumnHeader, TrajectoryError> {
    let Some(chunk) = column.chunk_of(slice) else {
        let (chunk, chunks) = (slice.chunk, column.num_chunks());
        return Err(TrajectoryError::UnknownChunk { column: index, chunk, chunks });
    };
    column.header_of(slice).ok_or_else(|| TrajectoryError::Index {
        column: index,
        chunk_key: chunk.key(),
        index: slice.index.into(),
        tensors: chunk.num_columns(),
    })
}

fn check_rows(
    index: usize,
    column: Column<'_>,
    slice: &Slice,
    header: &ColumnHeader,
) -> Result<(), TrajectoryError> {
    let end = slice.offset.checked_add(slice.length);
    if slice.length > 0 && end.is_some_and(|end| end <= header.rows()) {
        return Ok(());
    }
    Err(TrajectoryError::Rows {
        column: index,
        chunk_key: column.key_of(slice),
        offset: slice.offset.into(),
        length: slice.length.into(),
        rows: header.rows(),
    })
}

fn mixed(
    index: usize,
    column: Column<'_>,
    slice: &Slice,
    first: &ColumnHeader,
    other: &ColumnHeader,
) -> TrajectoryError {
    TrajectoryError::Mixed {
        column: index,
        chunk_key: column.key_of(slice),
        first_dtype: first.dtype,
        first_shape: Shape::from(first.cell_dims()),
        dtype: other.dtype,
        shape: Shape::from(other.cell_dims()),
    }
}
