//! From samples to memory for arrays, one per column.

use std::sync::Arc;

use bytes::Bytes;
use pyo3::prelude::*;
use relive_client::{ColumnLayout, Error, SampleBatch};
use relive_tensor::DType;

use crate::array;
use crate::buffer::{self, Block, OutOfMemory, Pool};
use crate::error::raise;

/// Why samples do not become arrays.
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

/// A column on its way into an array.
pub(crate) struct Gathered {
    data: Data,
    dims: Vec<usize>,
}

enum Data {
    Bytes(Block, DType),
    Strings(Vec<Bytes>),
}

impl Gathered {
    pub(crate) fn into_array<'py>(
        self,
        py: Python<'py>,
        pool: Option<&Arc<Pool>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self.data {
            Data::Bytes(block, dtype) => buffer::into_array(py, block, dtype, &self.dims, pool),
            Data::Strings(values) => array::strings_to_array(py, &values, &self.dims),
        }
    }
}

/// A column and, where samples differ in it, the number of rows of each.
pub(crate) type Column = (Gathered, Option<Vec<i64>>);

/// The columns as `[samples, rows, ..cell]`.
pub(crate) fn stacked(batch: &SampleBatch, pool: &Pool) -> Result<Vec<Column>> {
    let columns = gather(batch, &batch.columns()?, &[batch.len()], |len| pool.take(len))?;
    Ok(columns.into_iter().map(|column| (column, None)).collect())
}

/// The columns of a batch of one sample as `[rows, ..cell]`; squeezed ones are `[..cell]` unless rows are to be kept.
pub(crate) fn single(batch: &SampleBatch, keep_rows: bool) -> Result<Vec<Gathered>> {
    let layouts = batch.columns()?;
    let mut columns = gather(batch, &layouts, &[], Block::new)?;
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
    memory: impl Fn(usize) -> std::result::Result<Block, OutOfMemory>,
) -> Result<Vec<Gathered>> {
    let mut columns = Vec::with_capacity(layouts.len());
    for (index, layout) in layouts.iter().enumerate() {
        let data = match layout.size_bytes(batch.len()) {
            Some(size) => Data::Bytes(memory(size)?, layout.dtype),
            None => Data::Strings(batch.strings(index)?),
        };
        columns.push(Gathered { data, dims: dims(leading, layout) });
    }
    let targets = columns.iter_mut().enumerate().filter_map(|(index, column)| match &mut column.data {
        Data::Bytes(block, _) => Some((index, block.bytes_mut())),
        Data::Strings(_) => None,
    });
    batch.gather_columns_into(targets)?;
    Ok(columns)
}

/// The columns as `[samples, most rows, ..cell]`, zeros where a sample has no more rows.
pub(crate) fn padded(batch: &SampleBatch, pool: &Pool) -> Result<Vec<Column>> {
    let layouts = batch.columns_padded()?;
    layouts.iter().enumerate().map(|(column, layout)| padded_column(batch, pool, column, layout)).collect()
}

fn padded_column(batch: &SampleBatch, pool: &Pool, column: usize, layout: &ColumnLayout) -> Result<Column> {
    let dims = dims(&[batch.len()], layout);
    let rows = batch.rows_per_sample(column)?;
    let most = layout.rows.unwrap_or(1);
    let data = match layout.size_bytes(batch.len()) {
        Some(size) => {
            let mut block = pool.take(size)?;
            let mut mask = vec![0; batch.len() * most as usize];
            batch.gather_padded_into(column, most, block.bytes_mut(), &mut mask)?;
            Data::Bytes(block, layout.dtype)
        }
        None => Data::Strings(pad_strings(batch.strings(column)?, &rows, most, layout)),
    };
    let lengths = layout.rows.is_some().then(|| rows.iter().map(|&rows| i64::from(rows)).collect());
    Ok((Gathered { data, dims }, lengths))
}

/// Empty strings where a sample has no more rows.
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

fn dims(leading: &[usize], layout: &ColumnLayout) -> Vec<usize> {
    let rows = layout.rows.map(|rows| rows as usize);
    let cell = layout.cell_shape.dims().iter().map(|&dim| dim as usize);
    leading.iter().copied().chain(rows).chain(cell).collect()
}
