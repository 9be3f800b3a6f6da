//! Memory that is filled by Rust, or by a server over shared memory, and then owned by numpy. When numpy releases it,
//! it is reused for a later batch.
#![expect(unsafe_code, reason = "numpy's C interface takes pointers; each block says why it is sound")]

use numpy::npyffi::{self, NPY_ARRAY_CARRAY, NPY_ARRAY_CARRAY_RO, PY_ARRAY_API};
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use relive_batch::{ALIGNMENT, BatchError, BatchMemory, ColumnMemory};
use relive_tensor::{DType, Tensor};
use smallvec::SmallVec;

use super::dtypes::descr_of;

/// The memory cannot be allocated.
#[derive(Debug)]
pub(crate) struct OutOfMemory(BatchError);

impl From<BatchError> for OutOfMemory {
    fn from(error: BatchError) -> OutOfMemory {
        OutOfMemory(error)
    }
}

impl From<OutOfMemory> for PyErr {
    fn from(error: OutOfMemory) -> PyErr {
        PyMemoryError::new_err(error.0.to_string())
    }
}

/// Allocates zeroed memory for an array of `len` bytes.
pub(crate) fn zeroed(len: usize) -> Result<BatchMemory, OutOfMemory> {
    Ok(BatchMemory::zeroed(len)?)
}

/// The owner of an array's memory: part of a batch, or a separate block. It is never accessed while an array uses it.
#[pyclass(frozen, module = "relive._native")]
struct Owner {
    _memory: ColumnMemory,
}

/// Converts the memory to a writable array of `dims`, which must match its size exactly.
pub(crate) fn into_array<'py>(
    py: Python<'py>,
    memory: BatchMemory,
    dtype: DType,
    dims: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    over_column(py, memory.into_column(), dtype, dims)
}

/// Returns a column of a batch as a writable array of `dims`, in place.
pub(crate) fn over_column<'py>(
    py: Python<'py>,
    column: ColumnMemory,
    dtype: DType,
    dims: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    let elements: usize = dims.iter().product();
    let size = dtype.size_bytes().map(|size| size * elements);
    assert_eq!(Some(column.len()), size, "the memory has exactly the array's size");
    Shared::new(py, column)?.array(0, dtype, dims)
}

/// Memory that several arrays share. It is reused when all of the arrays are gone.
pub(crate) struct Shared<'py> {
    owner: Bound<'py, Owner>,
    data: *mut u8,
    len: usize,
}

impl<'py> Shared<'py> {
    pub(crate) fn new(py: Python<'py>, memory: ColumnMemory) -> PyResult<Shared<'py>> {
        let (data, len) = (memory.as_mut_ptr(), memory.len());
        let owner = Bound::new(py, Owner { _memory: memory })?;
        Ok(Shared { owner, data, len })
    }

    /// Returns the bytes that start at `offset` as a writable array, which must lie within the block. No other array
    /// may overlap it.
    pub(crate) fn array(&self, offset: usize, dtype: DType, dims: &[usize]) -> PyResult<Bound<'py, PyAny>> {
        let size = dtype.size_bytes().map(|size| dims.iter().product::<usize>() * size);
        let end = size.and_then(|size| offset.checked_add(size));
        assert!(end.is_some_and(|end| end <= self.len), "the array is within its block");
        assert_eq!(offset % ALIGNMENT, 0, "the array begins at a cache line");
        // SAFETY: `data` + `offset` points to as many bytes as `dims` and the dtype need (asserted), aligned to 64.
        // They live in a Vec inside `owner` (moving it leaves them in place and, unlike moving a box, asserts nothing
        // about aliasing) or in the batch that it keeps. Neither is touched while `owner` lives, and nothing else
        // refers to them.
        unsafe { array_over(self.data.add(offset), dtype, dims, NPY_ARRAY_CARRAY, self.owner.as_any()) }
    }
}

/// A tensor that arrays view.
#[pyclass(frozen, module = "relive._native")]
struct TensorOwner(Tensor);

/// Returns a numeric tensor as a read-only array, in place. Returns `None` for strings, and if the tensor's elements
/// are not laid out as numpy requires.
pub(crate) fn read_only<'py>(py: Python<'py>, tensor: &Tensor) -> PyResult<Option<Bound<'py, PyAny>>> {
    let dims: SmallVec<[usize; 8]> = tensor.shape().dims().iter().map(|&dim| dim as usize).collect();
    let seen = Bound::new(py, TensorOwner(tensor.clone()))?;
    match seen.get().0.bytes() {
        // numpy aligns complex numbers like their parts, so no type needs an alignment of more than 8 bytes.
        Some(bytes) if bytes.as_ptr().addr().is_multiple_of(align_of::<u64>()) => {
            // SAFETY: a tensor has as many bytes as its shape and dtype need. The tensor in `seen` keeps them alive by
            // a reference count, they are never written to, and the array is read-only.
            let array = unsafe {
                array_over(
                    bytes.as_ptr().cast_mut(),
                    tensor.dtype(),
                    &dims,
                    NPY_ARRAY_CARRAY_RO,
                    seen.as_any(),
                )
            };
            array.map(Some)
        }
        _ => Ok(None),
    }
}

/// Returns an array over memory that `owner` keeps alive.
///
/// # Safety
/// `data` is aligned for the dtype and points to as many bytes as `dims` and the dtype need. They stay in place while
/// `owner` lives. If the flags make the array writable, nothing else refers to the bytes; otherwise, the bytes are
/// never written to.
unsafe fn array_over<'py>(
    data: *mut u8,
    dtype: DType,
    dims: &[usize],
    flags: i32,
    owner: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = owner.py();
    let descr = descr_of(py, dtype)?;
    let mut shape: SmallVec<[npyffi::npy_intp; 8]> = dims.iter().map(|&dim| dim.cast_signed()).collect();
    let rank = i32::try_from(dims.len()).unwrap_or(i32::MAX);
    // SAFETY: the caller's contract; the array keeps its owner as its base. NewFromDescr steals the reference to the
    // descriptor, and SetBaseObject steals the one to the owner.
    unsafe {
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            npyffi::get_type_object(py, npyffi::NpyTypes::PyArray_Type),
            descr.into_ptr().cast(),
            rank,
            shape.as_mut_ptr(),
            std::ptr::null_mut(),
            data.cast(),
            flags,
            std::ptr::null_mut(),
        );
        let array = Bound::from_owned_ptr_or_err(py, array)?;
        if PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), owner.clone().into_ptr()) < 0 {
            return Err(PyErr::fetch(py));
        }
        Ok(array)
    }
}

/// Returns the bytes that `owner` keeps alive, as a writable array.
///
/// # Safety
/// The bytes are aligned for the dtype. They stay in place while `owner` lives, and nothing else refers to them.
pub(crate) unsafe fn over_bytes<'py>(
    owner: &Bound<'py, PyAny>,
    (data, len): (*mut u8, usize),
    dtype: DType,
    dims: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    let size = dtype.size_bytes().map(|size| dims.iter().product::<usize>() * size);
    assert_eq!(size, Some(len), "the bytes are exactly the array's");
    // SAFETY: the caller's contract; the length was checked.
    unsafe { array_over(data, dtype, dims, NPY_ARRAY_CARRAY, owner) }
}
