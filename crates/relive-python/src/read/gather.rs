//! Gathers samples into memory for arrays, one per column.

use std::sync::Arc;

use bytes::Bytes;
use pyo3::prelude::*;
use relive_batch::{BatchMemory, ColumnMemory, Pool};
use relive_client::{ColumnLayout, Error, SampleBatch};
use relive_tensor::DType;

use crate::arrays::array;
use crate::arrays::buffer::{self, OutOfMemory};
use crate::error::raise;

/// The reason why samples cannot become arrays.
pub(crate) enum Failure {
    Samples(Error),
    Memory(OutOfMemory),
}

impl Failure {
    pub(crate) fn raise(self, py: Python<'_>) -> PyErr {
        match self {
            Failure::Samples(error) => raise(py, &error),
            Failure::Memory(error) => error.into(),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Samples(error)
    }
}

impl From<OutOfMemory> for Failure {
    fn from(error: OutOfMemory) -> Failure {
        Failure::Memory(error)
    }
}

type Result<T> = std::result::Result<T, Failure>;

/// A column that becomes an array.
pub(crate) struct Gathered {
    data: Data,
    dims: Vec<usize>,
}

enum Data {
    /// In the batch's memory, or in memory that was filled for it.
    Memory(ColumnMemory, DType),
    /// In the caller's memory.
    Given,
    Strings(Vec<Bytes>),
}

impl Gathered {
    /// Returns the array, or `None` if the array is the caller's own.
    pub(crate) fn into_array(self, py: Python<'_>) -> PyResult<Option<Bound<'_, PyAny>>> {
        match self.data {
            Data::Memory(column, dtype) => buffer::over_column(py, column, dtype, &self.dims).map(Some),
            Data::Strings(values) => array::strings_to_array(py, &values, &self.dims).map(Some),
            Data::Given => Ok(None),
        }
    }
}

/// A column and, if samples differ in length, the number of rows of each sample.
pub(crate) type Column = (Gathered, Option<Vec<i64>>);

/// The destinations of columns: the caller's memory, or blocks of a pool.
pub(crate) struct Places<'a> {
    pool: Option<&'a Arc<Pool>>,
    given: Vec<Option<&'a mut [u8]>>,
}

enum Place<'a> {
    Own(BatchMemory),
    Gathered(ColumnMemory),
    Given(&'a mut [u8]),
}

impl<'a> Places<'a> {
    pub(crate) fn of(pool: &'a Arc<Pool>) -> Places<'a> {
        Places { pool: Some(pool), given: Vec::new() }
    }

    /// Memory by column; columns without an entry use blocks of the pool.
    pub(crate) fn given(pool: &'a Arc<Pool>, given: Vec<Option<&'a mut [u8]>>) -> Places<'a> {
        Places { pool: Some(pool), given }
    }

    /// Returns the destination of a column of the batch.
    fn find(
        &mut self,
        batch: &SampleBatch,
        column: usize,
        size: usize,
    ) -> std::result::Result<Place<'a>, OutOfMemory> {
        if self.given.get(column).is_none_or(Option::is_none)
            && let Some(memory) = batch.column_memory(column)
        {
            return Ok(Place::Gathered(memory));
        }
        self.take(column, size)
    }

    fn take(&mut self, column: usize, size: usize) -> std::result::Result<Place<'a>, OutOfMemory> {
        if let Some(given) = self.given.get_mut(column).and_then(Option::take) {
            return Ok(Place::Given(given));
        }
        let own = self.pool.map_or_else(|| BatchMemory::zeroed(size), |pool| pool.take(size));
        Ok(Place::Own(own?))
    }
}

impl Place<'_> {
    /// Returns the bytes to fill, or `None` if the data is already in place.
    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        match self {
            Place::Own(memory) => Some(memory.bytes_mut()),
            Place::Given(bytes) => Some(bytes),
            Place::Gathered(_) => None,
        }
    }

    fn filled(self, dtype: DType) -> Data {
        match self {
            Place::Own(memory) => Data::Memory(memory.into_column(), dtype),
            Place::Gathered(column) => Data::Memory(column, dtype),
            Place::Given(_) => Data::Given,
        }
    }
}

/// Returns the columns as `[samples, rows, ..cell]`.
pub(crate) fn stacked(
    batch: &SampleBatch,
    layouts: &[ColumnLayout],
    places: Places<'_>,
) -> Result<Vec<Column>> {
    let columns = gather(batch, layouts, &[batch.len()], places)?;
    Ok(columns.into_iter().map(|column| (column, None)).collect())
}

/// Returns the columns of a one-sample batch as `[rows, ..cell]`; squeezed columns are `[..cell]` unless rows are kept.
pub(crate) fn single(batch: &SampleBatch, keep_rows: bool) -> Result<Vec<Gathered>> {
    let layouts = batch.columns()?;
    let mut columns = gather(batch, &layouts, &[], Places { pool: None, given: Vec::new() })?;
    for (column, layout) in columns.iter_mut().zip(&layouts) {
        if keep_rows && layout.rows.is_none() {
            column.dims.insert(0, 1);
        }
    }
    Ok(columns)
}

fn gather(
    batch: &SampleBatch,
    layouts: &[ColumnLayout],
    leading: &[usize],
    mut places: Places<'_>,
) -> Result<Vec<Gathered>> {
    let mut taken = Vec::with_capacity(layouts.len());
    for (column, layout) in layouts.iter().enumerate() {
        let size = layout.size_bytes(batch.len());
        taken.push(size.map(|size| places.find(batch, column, size)).transpose()?);
    }
    let targets = taken.iter_mut().enumerate();
    let targets = targets.filter_map(|(column, place)| Some((column, place.as_mut()?.bytes_mut()?)));
    batch.gather_columns_into(targets)?;
    let column = |(column, (place, layout)): (usize, (Option<Place<'_>>, &ColumnLayout))| {
        let data = match place {
            Some(place) => place.filled(layout.dtype),
            None => Data::Strings(batch.strings(column)?),
        };
        Ok(Gathered { data, dims: dims(leading, layout) })
    };
    taken.into_iter().zip(layouts).enumerate().map(column).collect()
}

/// Returns the columns as `[samples, rows, ..cell]`, padded with zeros. The layouts are the batch's, or have more rows.
pub(crate) fn padded(
    batch: &SampleBatch,
    layouts: &[ColumnLayout],
    mut places: Places<'_>,
) -> Result<Vec<Column>> {
    let column = |(column, layout)| padded_column(batch, &mut places, column, layout);
    layouts.iter().enumerate().map(column).collect()
}

fn padded_column(
    batch: &SampleBatch,
    places: &mut Places<'_>,
    column: usize,
    layout: &ColumnLayout,
) -> Result<Column> {
    let dims = dims(&[batch.len()], layout);
    let rows = batch.rows_per_sample(column)?;
    let most = layout.rows.unwrap_or(1);
    let data = match layout.size_bytes(batch.len()) {
        Some(size) => {
            let mut place = places.take(column, size)?;
            let bytes = place.bytes_mut().unwrap_or_default();
            batch.gather_padded_into(column, most, bytes, None)?;
            place.filled(layout.dtype)
        }
        None => Data::Strings(pad_strings(batch.strings(column)?, &rows, most, layout)),
    };
    let lengths = layout.rows.is_some().then(|| rows.iter().map(|&rows| i64::from(rows)).collect());
    Ok((Gathered { data, dims }, lengths))
}

/// Pads shorter samples with empty strings.
fn pad_strings(strings: Vec<Bytes>, rows: &[u32], most: u32, layout: &ColumnLayout) -> Vec<Bytes> {
    let of_row = layout.cell_shape.dims().iter().map(|&dim| dim as usize).product::<usize>();
    let mut strings = strings.into_iter();
    let mut padded = Vec::with_capacity(rows.len() * most as usize * of_row);
    for &rows in rows {
        padded.extend(strings.by_ref().take(rows as usize * of_row));
        padded.extend(std::iter::repeat_n(Bytes::new(), (most - rows) as usize * of_row));
    }
    padded
}

/// Returns the dimensions of a column, after the leading ones.
pub(crate) fn dims(leading: &[usize], layout: &ColumnLayout) -> Vec<usize> {
    let rows = layout.rows.map(|rows| rows as usize);
    let cell = layout.cell_shape.dims().iter().map(|&dim| dim as usize);
    leading.iter().copied().chain(rows).chain(cell).collect()
}
