//! Converts weights between Python and Rust: named arrays.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use relive_rl::Weights;
use relive_tensor::Tensor;

use crate::arrays::{array, buffer};
use crate::interpreter::lock::Brief;

/// Converts the weights of a Python bridge to Rust, with one copy.
pub(super) fn from_python(version: u64, parts: &Bound<'_, PyAny>) -> PyResult<Weights> {
    let parts = parts.try_iter()?.map(|part| {
        let (name, value) = part?.extract::<(String, Bound<'_, PyAny>)>()?;
        Ok((name, array::to_tensor(&value)?))
    });
    Ok(Weights::new(version, parts.collect::<PyResult<Vec<(String, Tensor)>>>()?))
}

/// The newest weights as a dict of arrays, which all policies of a process share. Clones share the dict.
#[derive(Clone, Default)]
pub(super) struct WeightArrays(Arc<Brief<Option<Arc<Converted>>>>);

/// Weights, and their arrays.
type Converted = (Weights, Py<PyDict>);

impl WeightArrays {
    /// Returns the arrays of these weights: the same objects as before, as long as the weights have not changed.
    pub(super) fn of(&self, py: Python<'_>, weights: &Weights) -> PyResult<Py<PyDict>> {
        let known = self.0.get().filter(|known| std::ptr::eq(known.0.parts(), weights.parts()));
        if let Some(known) = known {
            return Ok(known.1.clone_ref(py));
        }
        let arrays = PyDict::new(py);
        for (name, tensor) in weights.parts() {
            let seen = buffer::read_only(py, tensor)?;
            arrays.set_item(name, seen.map_or_else(|| array::from_tensor(py, tensor), Ok)?)?;
        }
        let arrays = arrays.unbind();
        self.0.replace(Some(Arc::new((weights.clone(), arrays.clone_ref(py)))));
        Ok(arrays)
    }
}
