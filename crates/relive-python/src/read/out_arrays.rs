//! The caller's arrays into which batches are gathered.
#![expect(unsafe_code, reason = "numpy's memory is written to by pointer; each block says why it is sound")]

use std::ops::Range;

use numpy::npyffi::flags::{NPY_ARRAY_ALIGNED, NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_WRITEABLE};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use relive_client::ColumnLayout;

use super::gather::dims;
use crate::arrays::dtypes::{descr_of, dtype_of};
use crate::interpreter::lock::Brief;

/// One array per column; `None` for columns for which a new array is created.
pub(crate) struct Out {
    columns: Vec<Option<OutArray>>,
    batch_size: usize,
}

struct OutArray {
    /// The array's path in the caller's structure.
    path: String,
    array: Py<PyUntypedArray>,
}

/// Memory that is being written without the interpreter. No two calls may write to it at the same time.
static IN_USE: Brief<Vec<Range<usize>>> = Brief::new(Vec::new());

/// The memory of arrays while it is being written.
pub(crate) struct Writing {
    ranges: Vec<Option<Range<usize>>>,
    /// Keeps the memory alive.
    _arrays: Vec<Py<PyUntypedArray>>,
}

impl Out {
    /// Checks the properties of the arrays that do not depend on a batch.
    ///
    /// # Errors
    /// `TypeError` for objects that are not arrays or have a type that no column has; `ValueError` for arrays that
    /// cannot be written in place, whose lengths differ from the batches', or that share memory. The error names the
    /// path.
    pub(crate) fn new(
        py: Python<'_>,
        leaves: Vec<(String, Bound<'_, PyAny>)>,
        batch_size: usize,
    ) -> PyResult<Out> {
        let given = |(path, leaf)| OutArray::new(path, &leaf, batch_size);
        let out = Out { columns: leaves.into_iter().map(given).collect::<PyResult<_>>()?, batch_size };
        out.check_apart(py)?;
        Ok(out)
    }

    /// Returns the array of a column.
    pub(crate) fn array<'py>(&self, py: Python<'py>, column: usize) -> Option<Bound<'py, PyAny>> {
        let given = self.columns.get(column)?.as_ref()?;
        Some(given.array.bind(py).clone().into_any())
    }

    /// Returns the layouts, with as many rows as the arrays have room for.
    pub(crate) fn widened(&self, py: Python<'_>, mut layouts: Vec<ColumnLayout>) -> Vec<ColumnLayout> {
        for (given, layout) in self.columns.iter().zip(&mut layouts) {
            let Some(given) = given else { continue };
            let room = given.array.bind(py).shape().get(1).and_then(|&rows| u32::try_from(rows).ok());
            layout.rows = layout.rows.map(|rows| room.unwrap_or(rows));
        }
        layouts
    }

    /// Checks the arrays against a batch's columns and begins to write to them.
    ///
    /// # Errors
    /// `ValueError` for a wrong number of columns, shape or type, and for arrays that are no longer writable;
    /// `RuntimeError` while another call writes to one of the arrays.
    pub(crate) fn begin(&self, py: Python<'_>, layouts: &[ColumnLayout]) -> PyResult<Writing> {
        if self.columns.len() != layouts.len() {
            return Err(PyValueError::new_err(format!(
                "out has {} arrays, but the items have {} columns; give one array for each column",
                self.columns.len(),
                layouts.len()
            )));
        }
        let (mut ranges, mut arrays) = (Vec::with_capacity(layouts.len()), Vec::with_capacity(layouts.len()));
        for (given, layout) in self.columns.iter().zip(layouts) {
            ranges.push(given.as_ref().map(|given| given.check(py, layout, self.batch_size)).transpose()?);
            arrays.extend(given.as_ref().map(|given| given.array.clone_ref(py)));
        }
        Writing::begin(ranges, arrays)
    }

    fn check_apart(&self, py: Python<'_>) -> PyResult<()> {
        let given = self.columns.iter().flatten();
        let mut memory: Vec<_> =
            given.map(|given| (memory_of(given.array.bind(py)), given.path.as_str())).collect();
        memory.sort_by_key(|(range, _)| range.start);
        match memory.windows(2).find(|pair| matches!(pair, [(a, _), (b, _)] if overlap(a, b))) {
            Some([(_, a), (_, b)]) => Err(PyValueError::new_err(format!(
                "{a} and {b} share memory; each column needs its own array"
            ))),
            _ => Ok(()),
        }
    }
}

impl OutArray {
    fn new(path: String, leaf: &Bound<'_, PyAny>, batch_size: usize) -> PyResult<Option<OutArray>> {
        if leaf.is_none() {
            return Ok(None);
        }
        let py = leaf.py();
        let Ok(array) = leaf.cast::<PyUntypedArray>() else {
            let kind = leaf.get_type();
            return Err(PyTypeError::new_err(format!("{path} must be a numpy array or None, got a {kind}")));
        };
        check_memory(&path, array)?;
        let descr = array.dtype();
        if dtype_of(&descr)?.and_then(relive_tensor::DType::size_bytes).is_none() {
            return Err(PyTypeError::new_err(format!(
                "{path} has the data type {descr}, which batches cannot be gathered into"
            )));
        }
        if array.shape().first() != Some(&batch_size) {
            let shape = PyTuple::new(py, array.shape())?;
            return Err(PyValueError::new_err(format!(
                "{path} has the shape {shape}, but the first dimension must be batch_size, {batch_size}"
            )));
        }
        Ok(Some(OutArray { path, array: array.clone().unbind() }))
    }

    /// Returns the array's memory, if its type and shape match the column.
    fn check(&self, py: Python<'_>, layout: &ColumnLayout, batch_size: usize) -> PyResult<Range<usize>> {
        let (array, path) = (self.array.bind(py), &self.path);
        check_memory(path, array)?;
        if layout.dtype.size_bytes().is_none() {
            return Err(PyValueError::new_err(format!("{path} is a string column; give None for it")));
        }
        let descr = descr_of(py, layout.dtype)?.cast_into::<PyArrayDescr>()?;
        let expected = dims(&[batch_size], layout);
        if array.shape() != expected || !array.dtype().is_equiv_to(&descr) {
            return Err(PyValueError::new_err(format!(
                "{path} is {} {}, but the batch needs {descr} {}",
                array.dtype(),
                PyTuple::new(py, array.shape())?,
                PyTuple::new(py, &expected)?,
            )));
        }
        Ok(memory_of(array))
    }
}

/// Returns whether an array's elements can be written in place: row-major, in this machine's byte order.
fn check_memory(path: &str, array: &Bound<'_, PyUntypedArray>) -> PyResult<()> {
    // SAFETY: the pointer is that of a live array, which is read while the interpreter is held.
    let flags = unsafe { (*array.as_array_ptr()).fields.flags };
    let fault = if flags & NPY_ARRAY_WRITEABLE == 0 {
        "is read-only"
    } else if flags & NPY_ARRAY_C_CONTIGUOUS == 0 {
        "is not C-contiguous; use numpy.ascontiguousarray"
    } else if flags & NPY_ARRAY_ALIGNED == 0 {
        "is not aligned"
    } else if array.dtype().byteorder() == b'>' {
        "does not have this machine's byte order"
    } else {
        return Ok(());
    };
    Err(PyValueError::new_err(format!("cannot write to {path}: it {fault}")))
}

/// Returns the memory of a C-contiguous array's elements.
fn memory_of(array: &Bound<'_, PyUntypedArray>) -> Range<usize> {
    // SAFETY: the pointer is that of a live array, which is read while the interpreter is held.
    let start = unsafe { (*array.as_array_ptr()).fields.data }.addr();
    start..start + array.len() * array.dtype().itemsize()
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

impl Writing {
    fn begin(ranges: Vec<Option<Range<usize>>>, arrays: Vec<Py<PyUntypedArray>>) -> PyResult<Writing> {
        let is_free = IN_USE.with(|in_use| {
            for (number, range) in ranges.iter().flatten().enumerate() {
                let others = ranges.iter().flatten().skip(number + 1);
                if in_use.iter().chain(others).any(|other| overlap(range, other)) {
                    return false;
                }
            }
            in_use.extend(ranges.iter().flatten().cloned());
            true
        });
        if !is_free {
            return Err(PyRuntimeError::new_err(
                "another call is writing to an array of out, or the array occurs twice",
            ));
        }
        Ok(Writing { ranges, _arrays: arrays })
    }

    /// Returns the memory of each column's array.
    pub(crate) fn slices(&mut self) -> impl Iterator<Item = Option<&mut [u8]>> {
        self.ranges.iter().map(|range| {
            let range = range.as_ref()?;
            // SAFETY: the range is that of an array that was C-contiguous, writable and numeric, and which this value
            // keeps alive. numpy frees or moves the memory of an array only with its last reference (`resize` refuses
            // an array with other references, unless the check is disabled). No other call of this module has a slice
            // of it (`IN_USE`), and ranges of one value do not overlap. Python code that accesses it concurrently sees
            // the same as with any numpy call with an `out` argument.
            Some(unsafe {
                std::slice::from_raw_parts_mut(
                    std::ptr::with_exposed_provenance_mut(range.start),
                    range.end - range.start,
                )
            })
        })
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        IN_USE.with(|in_use| {
            for range in self.ranges.iter().flatten() {
                if let Some(at) = in_use.iter().position(|other| other == range) {
                    in_use.swap_remove(at);
                }
            }
        });
    }
}
