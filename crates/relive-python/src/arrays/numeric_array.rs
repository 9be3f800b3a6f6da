//! Numeric arrays that are read in place.
#![expect(unsafe_code, reason = "numpy's data is reached by pointer; the block says why it is sound")]

use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use relive_tensor::DType;

use super::array::canonical;
use super::conversion::as_array;
use super::dtypes::{dtype_of, unsupported};

/// A numeric array: row-major and little endian.
pub(crate) struct NumericArray<'py> {
    array: Bound<'py, PyUntypedArray>,
    dtype: DType,
}

impl<'py> NumericArray<'py> {
    /// Converts an object to an array; does not copy an array that already has the right layout.
    ///
    /// # Errors
    /// The object's elements have no fixed size, or numpy cannot convert the object.
    pub(crate) fn of(object: &Bound<'py, PyAny>) -> PyResult<NumericArray<'py>> {
        let array = as_array(object)?;
        let descr = array.dtype();
        match dtype_of(&descr)?.filter(|dtype| dtype.size_bytes().is_some()) {
            Some(dtype) => Ok(NumericArray { array: canonical(&array, &descr)?, dtype }),
            None => Err(unsupported(&descr)),
        }
    }

    pub(crate) fn dtype(&self) -> DType {
        self.dtype
    }

    pub(crate) fn shape(&self) -> &[usize] {
        self.array.shape()
    }

    /// Returns the elements.
    pub(crate) fn bytes(&self) -> &[u8] {
        if self.array.len() == 0 {
            return &[];
        }
        let len = self.array.len() * self.array.dtype().itemsize();
        // SAFETY: the array is C-contiguous, so its elements are the `len` bytes from its data pointer on; pointer and
        // length are read together. They live as long as the array, which `self` keeps alive: numpy refuses to resize
        // an array with other references. If another thread writes to them at the same time, the values may be torn, as
        // in a copy that numpy makes.
        unsafe {
            let object = self.array.as_array_ptr();
            std::slice::from_raw_parts((*object).fields.data.cast::<u8>(), len)
        }
    }
}
