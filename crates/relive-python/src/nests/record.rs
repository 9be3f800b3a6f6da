//! Named tuples and instances of attrs classes, whose parts are named by the class.

use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};

/// A named tuple, or an instance of an attrs class.
pub(crate) struct Record<'py> {
    pub(crate) class: Bound<'py, PyType>,
    pub(crate) parts: Bound<'py, PyTuple>,
}

impl<'py> Record<'py> {
    pub(super) fn of_attrs(object: &Bound<'py, PyAny>) -> PyResult<Record<'py>> {
        let class = object.get_type();
        let parts = field_names(&class)?
            .into_iter()
            .map(|name| object.getattr(name.cast::<PyString>()?))
            .collect::<PyResult<Vec<_>>>()?;
        Ok(Record { class, parts: PyTuple::new(object.py(), parts)? })
    }

    /// Returns the names of the parts.
    ///
    /// # Errors
    /// A named tuple has a different number of values than its class has fields.
    pub(crate) fn names(&self) -> PyResult<Vec<String>> {
        let names: Vec<String> =
            field_names(&self.class)?.iter().map(PyAnyMethods::extract).collect::<PyResult<_>>()?;
        if names.len() != self.parts.len() {
            return Err(PyValueError::new_err(format!(
                "{} has {} values, but its class has {} fields",
                self.class,
                self.parts.len(),
                names.len()
            )));
        }
        Ok(names)
    }
}

/// Returns the names of the fields of a named tuple or attrs class.
pub(crate) fn field_names<'py>(class: &Bound<'py, PyType>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let py = class.py();
    match class.getattr_opt(intern!(py, "_fields"))? {
        Some(names) => names.try_iter()?.collect(),
        None => {
            let attributes = class.getattr(intern!(py, "__attrs_attrs__"))?;
            attributes.try_iter()?.map(|attribute| attribute?.getattr(intern!(py, "name"))).collect()
        }
    }
}

pub(super) fn is_attrs(class: &Bound<'_, PyType>) -> PyResult<bool> {
    class.hasattr(intern!(class.py(), "__attrs_attrs__"))
}

/// Returns an instance of a named tuple or attrs class. The parameters of an attrs class may be keyword-only.
pub(crate) fn instance<'py>(
    class: &Bound<'py, PyType>,
    parts: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = class.py();
    if class.hasattr(intern!(py, "_fields"))? {
        return class.call1(PyTuple::new(py, parts)?);
    }
    let named = PyDict::new(py);
    for (attribute, part) in class.getattr(intern!(py, "__attrs_attrs__"))?.try_iter()?.zip(parts) {
        named.set_item(parameter(&attribute?)?, part)?;
    }
    class.call((), Some(&named))
}

/// Returns the name of the constructor's parameter, which lacks the underscores of a private attribute.
fn parameter(attribute: &Bound<'_, PyAny>) -> PyResult<String> {
    let py = attribute.py();
    let alias = attribute.getattr_opt(intern!(py, "alias"))?.filter(|alias| !alias.is_none());
    match alias {
        Some(alias) => alias.extract(),
        None => {
            let name: String = attribute.getattr(intern!(py, "name"))?.extract()?;
            Ok(name.trim_start_matches('_').to_owned())
        }
    }
}
