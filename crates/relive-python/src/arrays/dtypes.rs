//! Maps element types to numpy's dtypes.

use numpy::{PyArrayDescr, PyArrayDescrMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;
use relive_tensor::DType;

pub(crate) fn kind_of(descr: &Bound<'_, PyArrayDescr>) -> u8 {
    descr.kind()
}

/// Returns the element type of a numpy dtype, or `None` if no tensor has this type.
pub(crate) fn dtype_of(descr: &Bound<'_, PyArrayDescr>) -> PyResult<Option<DType>> {
    Ok(Some(match (kind_of(descr), descr.itemsize()) {
        (b'f', 4) => DType::Float32,
        (b'f', 8) => DType::Float64,
        (b'f', 2) => named(descr)?.unwrap_or(DType::Float16),
        (b'i', 8) => DType::Int64,
        (b'i', 4) => DType::Int32,
        (b'i', 2) => DType::Int16,
        (b'i', 1) => DType::Int8,
        (b'u', 1) => DType::UInt8,
        (b'u', 2) => DType::UInt16,
        (b'u', 4) => DType::UInt32,
        (b'u', 8) => DType::UInt64,
        (b'b', 1) => DType::Bool,
        (b'c', 8) => DType::Complex64,
        (b'c', 16) => DType::Complex128,
        (b'O' | b'S' | b'U', _) => DType::String,
        (b'V' | b'f', _) => return named(descr),
        _ => return Ok(None),
    }))
}

/// Returns the types that the package `ml_dtypes` adds to numpy.
fn named(descr: &Bound<'_, PyArrayDescr>) -> PyResult<Option<DType>> {
    let name: String = descr.getattr(intern!(descr.py(), "name"))?.extract()?;
    Ok(ML_DTYPES.iter().find(|(known, _)| *known == name).map(|(_, dtype)| *dtype))
}

const ML_DTYPES: [(&str, DType); 5] = [
    ("bfloat16", DType::BFloat16),
    ("float8_e5m2", DType::Float8E5M2),
    ("float8_e4m3fn", DType::Float8E4M3Fn),
    ("int4", DType::Int4),
    ("uint4", DType::UInt4),
];

/// Returns the numpy dtype of an element type.
pub(crate) fn descr_of(py: Python<'_>, dtype: DType) -> PyResult<Bound<'_, PyAny>> {
    static KNOWN: PyOnceLock<Py<pyo3::types::PyDict>> = PyOnceLock::new();
    let known = KNOWN.get_or_init(py, || pyo3::types::PyDict::new(py).unbind()).bind(py);
    let key = dtype as u8;
    if let Some(descr) = known.get_item(key)? {
        return Ok(descr);
    }
    let descr = make_descr(py, dtype)?;
    known.set_item(key, &descr)?;
    Ok(descr)
}

fn make_descr(py: Python<'_>, dtype: DType) -> PyResult<Bound<'_, PyAny>> {
    let make = |what: Bound<'_, PyAny>| numpy(py)?.getattr("dtype")?.call1((what,)).map(Bound::unbind);
    if let Some((name, _)) = ML_DTYPES.iter().find(|(_, known)| *known == dtype) {
        let module = py.import("ml_dtypes").map_err(|_| {
            PyTypeError::new_err(format!(
                "numpy supports {name} only with the package ml_dtypes; pip install ml_dtypes"
            ))
        })?;
        return Ok(make(module.getattr(*name)?)?.into_bound(py));
    }
    let name = match dtype {
        DType::Float32 => "float32",
        DType::Float64 => "float64",
        DType::Float16 => "float16",
        DType::Int8 | DType::QInt8 => "int8",
        DType::Int16 | DType::QInt16 => "int16",
        DType::Int32 | DType::QInt32 => "int32",
        DType::Int64 => "int64",
        DType::UInt8 | DType::QUInt8 => "uint8",
        DType::UInt16 | DType::QUInt16 => "uint16",
        DType::UInt32 => "uint32",
        DType::UInt64 => "uint64",
        DType::Bool => "bool",
        DType::Complex64 => "complex64",
        DType::Complex128 => "complex128",
        DType::String => "object",
        DType::BFloat16 | DType::Float8E5M2 | DType::Float8E4M3Fn | DType::Int4 | DType::UInt4 => "void",
    };
    Ok(make(PyString::new(py, name).into_any())?.into_bound(py))
}

pub(crate) fn unsupported(descr: &Bound<'_, PyArrayDescr>) -> PyErr {
    PyTypeError::new_err(format!("numpy arrays of {descr} cannot be stored: incompatible function arguments"))
}

pub(crate) fn numpy(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    static NUMPY: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    NUMPY.get_or_try_init(py, || py.import("numpy").map(Bound::unbind)).map(|module| module.bind(py))
}
