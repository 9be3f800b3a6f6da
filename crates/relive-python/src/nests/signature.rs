//! Signatures: nests of array specs in Python, nests of tensor specs in Rust.

use std::sync::Arc;

use numpy::PyArrayDescr;
use pyo3::PyTypeInfo;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use relive_tensor::{Signature, TensorSpec};

use super::nest;
use crate::arrays::array;
use crate::arrays::dtypes::{self, dtype_of};

/// Converts a nest of `relive.specs.ArraySpec` to a signature. `None` and empty structures mean that there is no
/// signature.
pub(crate) fn to_signature(object: &Bound<'_, PyAny>) -> PyResult<Option<Signature>> {
    let signature = nest::to_nest(object, &mut |leaf| to_spec(leaf))?;
    Ok((!signature.is_empty()).then_some(signature))
}

/// A signature that is converted to Python's classes when it is used. Programs often read the state of a table for its
/// size only, and the conversion takes some microseconds for each column.
#[pyclass(frozen, module = "relive._native")]
pub(crate) struct TableSignature(Arc<Signature>);

impl TableSignature {
    pub(crate) fn of(signature: &Arc<Signature>) -> TableSignature {
        TableSignature(Arc::clone(signature))
    }
}

#[pymethods]
impl TableSignature {
    #[new]
    fn new(specs: &Bound<'_, PyAny>) -> PyResult<TableSignature> {
        Ok(TableSignature(Arc::new(to_signature(specs)?.unwrap_or_else(|| Signature::Tuple(Vec::new())))))
    }

    /// Returns the signature as a nest of `relive.specs.ArraySpec`.
    fn specs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        from_signature(py, &self.0)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyAny>,))> {
        Ok((TableSignature::type_object(py).into_any(), (self.specs(py)?,)))
    }
}

fn to_spec(spec: &Bound<'_, PyAny>) -> PyResult<TensorSpec> {
    let descr = dtypes::numpy(spec.py())?.getattr("dtype")?.call1((spec.getattr("dtype")?,))?;
    let descr = descr.cast_into::<PyArrayDescr>()?;
    let dtype = dtype_of(&descr)?
        .ok_or_else(|| PyValueError::new_err(format!("a signature cannot hold arrays of {descr}")))?;
    let name: Option<String> = spec.getattr("name")?.extract()?;
    let given = spec.getattr("shape")?;
    let shape: Option<Vec<Option<u32>>> = given.extract().map_err(|_| {
        PyValueError::new_err(format!("a signature cannot have the shape {given}; sizes must be below 2**32"))
    })?;
    let mut made = TensorSpec::new(name.unwrap_or_default(), dtype, shape);
    if let (Ok(minimum), Ok(maximum)) = (spec.getattr("minimum"), spec.getattr("maximum")) {
        let cast = |bound: Bound<'_, PyAny>| {
            let array = dtypes::numpy(spec.py())?.call_method1("asarray", (bound, &descr))?;
            array::to_tensor(&array)
        };
        made.bounds = Some((cast(minimum)?, cast(maximum)?));
    }
    Ok(made)
}

/// Converts a signature to a nest of `relive.specs.ArraySpec`.
pub(crate) fn from_signature<'py>(py: Python<'py>, signature: &Signature) -> PyResult<Bound<'py, PyAny>> {
    let specs = py.import("relive.specs")?;
    nest::from_nest(py, signature, &mut |spec| from_spec(py, &specs, spec))
}

fn from_spec<'py>(
    py: Python<'py>,
    specs: &Bound<'py, PyModule>,
    spec: &TensorSpec,
) -> PyResult<Bound<'py, PyAny>> {
    let dtype = dtypes::descr_of(py, spec.dtype)?;
    let shape = match &spec.shape {
        Some(sizes) => PyTuple::new(py, sizes)?.into_any(),
        None => py.None().into_bound(py),
    };
    let name = (!spec.name.is_empty()).then_some(spec.name.as_str());
    match &spec.bounds {
        None => specs.getattr("ArraySpec")?.call1((shape, dtype, name)),
        Some((minimum, maximum)) => {
            let (minimum, maximum) = (array::from_tensor(py, minimum)?, array::from_tensor(py, maximum)?);
            let kwargs = pyo3::types::PyDict::new(py);
            kwargs.set_item("minimum", minimum)?;
            kwargs.set_item("maximum", maximum)?;
            kwargs.set_item("name", name)?;
            specs.getattr("BoundedArraySpec")?.call_method("_received", (shape, dtype), Some(&kwargs))
        }
    }
}
