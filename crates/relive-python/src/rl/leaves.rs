//! Copies environments' values between numpy and buffers.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use relive_env::{ArraySpec, Buffer, View, ViewMut};
use relive_tensor::{DType, Nest, Shape};

use crate::arrays::array::Value;
use crate::arrays::{buffer, dtypes};
use crate::nests::nest;

/// Writes observations or actions into buffers and reads them back.
pub(super) struct Leaves {
    nest: Nest<ArraySpec>,
    leaves: Vec<(String, ArraySpec)>,
    /// States in messages whether the values are observations or actions, and their source.
    what: String,
}

impl Leaves {
    pub(super) fn new(what: &'static str, nest: Nest<ArraySpec>) -> Leaves {
        let paths = nest.flatten_with_paths().into_iter();
        let leaves = paths.map(|(path, leaf)| (path.to_string(), leaf.clone())).collect();
        Leaves { nest, leaves, what: what.to_owned() }
    }

    /// Adds the name of the method that returns the values to messages.
    pub(super) fn given_by(mut self, method: &str) -> Leaves {
        self.what = format!("{method}: {}", self.what);
        self
    }

    /// Sets the names that messages use for the leaves, instead of their positions.
    pub(super) fn named(mut self, names: impl Iterator<Item = String>) -> Leaves {
        self.leaves.iter_mut().zip(names).for_each(|((path, _), name)| *path = name);
        self
    }

    /// Writes a value with the right leaves, in any structure.
    pub(super) fn write(&self, value: &Bound<'_, PyAny>, row: &mut ViewMut<'_>) -> PyResult<()> {
        let values = nest::leaves(value)?;
        self.expect_leaves(values.len())?;
        for (index, ((path, spec), value)) in self.leaves.iter().zip(&values).enumerate() {
            let value = self.converted(path, spec, value)?;
            let bytes = value.bytes();
            match row.leaf_bytes_mut(index) {
                Some(place) if place.len() == bytes.len() && value.dims() == spec.shape.dims() => {
                    place.copy_from_slice(bytes);
                }
                _ => {
                    let found = shown(value.dtype(), value.dims());
                    return Err(PyValueError::new_err(self.mismatch(path, spec, &found)));
                }
            }
        }
        Ok(())
    }

    /// Returns the value of a leaf, converted to the element type of its spec if numpy considers both types to be of
    /// the same kind. Whole numbers of another type must be in the range of the spec's type.
    fn converted<'py>(
        &self,
        path: &str,
        spec: &ArraySpec,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Value<'py>> {
        let found = Value::of(value)?;
        if found.dtype() == spec.dtype {
            return Ok(found);
        }
        let py = value.py();
        let numbers = dtypes::numpy(py)?.call_method1(intern!(py, "asarray"), (value,))?;
        let range = range_of(spec.dtype).filter(|_| range_of(found.dtype()).is_some());
        if let Some((least, most)) = range
            && let Some(outside) = outside(&numbers, least, most)?
        {
            let found = format!("{} with the number {outside}", found.dtype().numpy_name());
            return Err(PyTypeError::new_err(self.mismatch(path, spec, &found)));
        }
        let casting = if range.is_some() { "unsafe" } else { "same_kind" };
        let kwargs = pyo3::types::PyDict::new(py);
        kwargs.set_item("casting", casting)?;
        let cast = numbers.call_method("astype", (dtypes::descr_of(py, spec.dtype)?,), Some(&kwargs));
        match cast {
            Ok(cast) => Value::of(&cast),
            Err(_) => Err(PyTypeError::new_err(self.mismatch(path, spec, found.dtype().numpy_name()))),
        }
    }

    /// Writes arrays that have one row for each row of the buffer.
    pub(super) fn write_rows(&self, values: &[Bound<'_, PyAny>], buffer: &mut Buffer) -> PyResult<()> {
        self.expect_leaves(values.len())?;
        let rows = buffer.rows();
        for (index, ((path, spec), value)) in self.leaves.iter().zip(values).enumerate() {
            let value = self.converted(path, spec, value)?;
            let dims: Vec<u32> =
                [u32::try_from(rows).unwrap_or(u32::MAX)].iter().chain(spec.shape.dims()).copied().collect();
            let bytes = value.bytes();
            match buffer.leaf_bytes_mut(index) {
                Some(place) if place.len() == bytes.len() && value.dims() == dims => {
                    place.copy_from_slice(bytes);
                }
                _ => {
                    let expected = shown(spec.dtype, &dims);
                    let found = shown(value.dtype(), value.dims());
                    return Err(PyValueError::new_err(self.differs(path, &expected, &found)));
                }
            }
        }
        Ok(())
    }

    /// Returns all rows as new arrays with the leading dimensions `dims`.
    pub(super) fn read_rows<'py>(
        &self,
        py: Python<'py>,
        buffer: &Buffer,
        dims: &[usize],
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let leaves = self.leaves.iter().enumerate();
        leaves
            .map(|(index, (_, spec))| to_array(py, spec, dims, buffer.leaf_bytes(index).unwrap_or_default()))
            .collect()
    }

    fn expect_leaves(&self, found: usize) -> PyResult<()> {
        let (what, expected) = (&self.what, self.leaves.len());
        if found == expected {
            return Ok(());
        }
        Err(PyValueError::new_err(format!("{what}: expected {expected} leaves, got {found}")))
    }

    fn mismatch(&self, path: &str, spec: &ArraySpec, found: &str) -> String {
        self.differs(path, &shown(spec.dtype, spec.shape.dims()), found)
    }

    fn differs(&self, path: &str, expected: &str, found: &str) -> String {
        let place = if path.is_empty() { String::new() } else { format!(" at {path:?}") };
        format!("{}{place}: expected {expected}, got {found}", self.what)
    }

    /// Returns a row as new arrays, in the structure of the spec.
    pub(super) fn read<'py>(&self, py: Python<'py>, row: View<'_>) -> PyResult<Bound<'py, PyAny>> {
        let mut index = 0;
        nest::from_nest(py, &self.nest, &mut |spec| {
            index += 1;
            to_array(py, spec, &[], row.leaf_bytes(index - 1).unwrap_or_default())
        })
    }
}

fn to_array<'py>(
    py: Python<'py>,
    spec: &ArraySpec,
    leading: &[usize],
    bytes: &[u8],
) -> PyResult<Bound<'py, PyAny>> {
    let mut block = buffer::zeroed(bytes.len())?;
    block.bytes_mut().copy_from_slice(bytes);
    let own = spec.shape.dims().iter().map(|dim| *dim as usize);
    let dims: Vec<usize> = leading.iter().copied().chain(own).collect();
    buffer::into_array(py, block, spec.dtype, &dims)
}

/// Formats a type and a shape in numpy's notation.
fn shown(dtype: DType, dims: &[u32]) -> String {
    format!("{} {}", dtype.numpy_name(), Shape::from(dims).display_numpy())
}

/// Returns the least and the greatest number of a type of whole numbers, or `None` for other types.
fn range_of(dtype: DType) -> Option<(i128, i128)> {
    Some(match dtype {
        DType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        DType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        DType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        DType::Int64 => (i64::MIN.into(), i64::MAX.into()),
        DType::UInt8 => (0, u8::MAX.into()),
        DType::UInt16 => (0, u16::MAX.into()),
        DType::UInt32 => (0, u32::MAX.into()),
        DType::UInt64 => (0, u64::MAX.into()),
        DType::Bool => (0, 1),
        _ => return None,
    })
}

/// Returns a number of a numpy array of whole numbers that is not in a range.
fn outside(numbers: &Bound<'_, PyAny>, least: i128, most: i128) -> PyResult<Option<i128>> {
    if numbers.getattr(intern!(numbers.py(), "size"))?.extract::<usize>()? == 0 {
        return Ok(None);
    }
    for extreme in [intern!(numbers.py(), "min"), intern!(numbers.py(), "max")] {
        let number: i128 =
            numbers.call_method0(extreme)?.call_method0(intern!(numbers.py(), "__int__"))?.extract()?;
        if !(least..=most).contains(&number) {
            return Ok(Some(number));
        }
    }
    Ok(None)
}
