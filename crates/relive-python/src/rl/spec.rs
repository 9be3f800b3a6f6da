//! Specs of environments, as nests of `relive.ArraySpec` in Python and of [`ArraySpec`] in Rust.

use numpy::PyArrayDescr;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use relive_env::{ArraySpec, Domain, EnvironmentSpec};
use relive_tensor::Nest;

use super::raise::raise_env;
use crate::arrays::{array, dtypes};
use crate::nests::nest;

/// Returns a spec from Python code: `(observations, actions, rewards, discounts)`, with leaves of this package's own
/// classes.
pub(super) fn from_python(specs: &Bound<'_, PyAny>) -> PyResult<EnvironmentSpec> {
    let part = |index: usize| nest::to_nest(&specs.get_item(index)?, &mut |leaf| leaf_from_python(leaf));
    let scalar = |index: usize| leaf_from_python(&specs.get_item(index)?);
    let spec = EnvironmentSpec {
        observations: part(0)?,
        actions: part(1)?,
        rewards: scalar(2)?,
        discounts: scalar(3)?,
    };
    spec.validate().map_err(|error| raise_env(&error))?;
    Ok(spec)
}

pub(super) fn leaf_from_python(spec: &Bound<'_, PyAny>) -> PyResult<ArraySpec> {
    let py = spec.py();
    let descr = spec.getattr(intern!(py, "dtype"))?.cast_into::<PyArrayDescr>()?;
    let dtype = dtypes::dtype_of(&descr)?
        .ok_or_else(|| PyTypeError::new_err(format!("environments cannot have arrays of {descr}")))?;
    let shape: Vec<u32> = spec.getattr(intern!(py, "shape"))?.extract()?;
    let name: Option<String> = spec.getattr(intern!(py, "name"))?.extract()?;
    let bounds = |name: &str| array::floats(&spec.getattr(name)?);
    let domain = if let Ok(count) = spec.getattr(intern!(py, "num_values")) {
        Domain::Discrete(count.extract()?)
    } else if spec.hasattr(intern!(py, "minimum"))? {
        Domain::Bounded { minimum: bounds("minimum")?, maximum: bounds("maximum")? }
    } else {
        Domain::Any
    };
    Ok(ArraySpec { name: name.unwrap_or_default(), dtype, shape: shape.as_slice().into(), domain })
}

/// Returns a spec for Python: `(observations, actions, rewards, discounts)`.
pub(super) fn to_python<'py>(py: Python<'py>, spec: &EnvironmentSpec) -> PyResult<[Bound<'py, PyAny>; 4]> {
    let module = py.import("relive.rl.specs")?;
    let of = |nest: &Nest<ArraySpec>| nest::from_nest(py, nest, &mut |leaf| leaf_to_python(&module, leaf));
    let scalar = |leaf| leaf_to_python(&module, leaf);
    Ok([of(&spec.observations)?, of(&spec.actions)?, scalar(&spec.rewards)?, scalar(&spec.discounts)?])
}

fn leaf_to_python<'py>(module: &Bound<'py, PyModule>, spec: &ArraySpec) -> PyResult<Bound<'py, PyAny>> {
    let descr = dtypes::descr_of(module.py(), spec.dtype)?;
    let (shape, name) = (spec.shape.dims().to_vec(), (!spec.name.is_empty()).then_some(spec.name.as_str()));
    match &spec.domain {
        Domain::Any => module.call_method1("array_spec", (shape, descr, name)),
        Domain::Bounded { minimum, maximum } => {
            module.call_method1("bounded_spec", (shape, descr, minimum, maximum, name))
        }
        Domain::Discrete(count) => module.call_method1("discrete_spec", (*count, descr, name)),
    }
}
