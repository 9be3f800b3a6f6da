//! Conversion of values to numpy's arrays.

use numpy::PyUntypedArray;
use pyo3::exceptions::{PyException, PyImportError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use super::dtypes::numpy;

/// Returns a value as an array, the value itself if it is one. PyTorch tensors can have a gradient or be on a device.
///
/// # Errors
/// `TypeError` if numpy refuses the value, with numpy's exception as its cause, or if it is an array with masked elements.
/// Other exceptions, such as the value's own, stay unchanged.
pub(crate) fn as_array<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyUntypedArray>> {
    if let Ok(array) = value.cast::<PyUntypedArray>() {
        expect_unmasked(array)?;
        return Ok(array.clone());
    }
    let py = value.py();
    let array = numpy(py)?.call_method1(intern!(py, "asarray"), (value,));
    let array = array.or_else(|error| detached(value, error)).map_err(|error| refusal(value, error))?;
    Ok(array.cast_into::<PyUntypedArray>()?)
}

/// Refuses an array with masked elements, because only the elements would be stored, and not the mask.
pub(crate) fn expect_unmasked(array: &Bound<'_, PyUntypedArray>) -> PyResult<()> {
    static MASKED: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    if array.is_exact_instance_of::<PyUntypedArray>() {
        return Ok(());
    }
    let py = array.py();
    let may_have_mask = array.is_instance(MASKED.import(py, "numpy.ma", "MaskedArray")?)?;
    if may_have_mask && py.import("numpy.ma")?.call_method1("is_masked", (array,))?.is_truthy()? {
        return Err(PyTypeError::new_err(
            "an array with masked elements cannot be stored: incompatible function arguments; fill them first, for example \
             with filled(0)",
        ));
    }
    Ok(())
}

/// Returns a tensor that numpy refuses, because it has a gradient, is on a device, or has the type bfloat16, as an array.
fn detached<'py>(value: &Bound<'py, PyAny>, error: PyErr) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    if !error.is_instance_of::<PyException>(py) || !value.hasattr(intern!(py, "detach"))? {
        return Err(error);
    }
    py.import("relive._frameworks")?.call_method1("as_column", (value,))
}

fn refusal(value: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    let py = value.py();
    let is_refusal = error.is_instance_of::<PyTypeError>(py)
        || error.is_instance_of::<PyValueError>(py)
        || error.is_instance_of::<PyImportError>(py);
    if !is_refusal {
        return error;
    }
    let class = value.get_type().name().map_or_else(|_| "value".to_owned(), |name| name.to_string());
    let refusal = PyTypeError::new_err(format!("{class} cannot be turned into a numpy array: {error}"));
    refusal.set_cause(py, Some(error));
    refusal
}
