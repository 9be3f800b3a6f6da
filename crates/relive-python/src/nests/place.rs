//! The paths of values in the errors about them.

use pyo3::exceptions::{PyTypeError, PyUnicodeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::nest::{Container, MAX_DEPTH};

/// Returns the error for a value that is not a tensor, with its path. Other exceptions stay unchanged.
pub(crate) fn at_path(error: PyErr, path: &Bound<'_, PyTuple>) -> PyErr {
    let py = path.py();
    if !error.is_instance_of::<PyTypeError>(py) && !error.is_instance_of::<PyValueError>(py) {
        return error;
    }
    let text = format!("at {path}: {}", error.value(py));
    let located = if error.is_instance_of::<PyUnicodeError>(py) {
        // An exception of this class needs more arguments than a text.
        PyValueError::new_err(text)
    } else {
        PyErr::from_type(error.get_type(py), text)
    };
    located.set_cause(py, error.cause(py));
    located
}

/// Like [`at_path`], for a leaf of `object`.
pub(crate) fn at_leaf<'py>(error: PyErr, object: &Bound<'py, PyAny>, leaf: &Bound<'py, PyAny>) -> PyErr {
    let mut path = Vec::new();
    match find(object, leaf, &mut path)
        .and_then(|found| found.then(|| PyTuple::new(object.py(), path)).transpose())
    {
        Ok(Some(path)) => at_path(error, &path),
        // A container that creates new parts each time it is read.
        Ok(None) | Err(_) => error,
    }
}

/// Finds the path to a part of `object`.
fn find<'py>(
    object: &Bound<'py, PyAny>,
    part: &Bound<'py, PyAny>,
    path: &mut Vec<Bound<'py, PyAny>>,
) -> PyResult<bool> {
    if object.is(part) || path.len() > MAX_DEPTH {
        return Ok(object.is(part));
    }
    for (name, inner) in named_parts(object)? {
        path.push(name);
        if find(&inner, part, path)? {
            return Ok(true);
        }
        path.pop();
    }
    Ok(false)
}

type NamedParts<'py> = Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>;

/// Returns the direct parts of a container with their names, in the order in which a step's parts are read.
fn named_parts<'py>(object: &Bound<'py, PyAny>) -> PyResult<NamedParts<'py>> {
    let py = object.py();
    let number = |(index, part): (usize, Bound<'py, PyAny>)| Ok((index.into_pyobject(py)?.into_any(), part));
    match Container::of(object)? {
        Container::Leaf => Ok(Vec::new()),
        Container::List(list) => list.iter().enumerate().map(number).collect(),
        Container::Tuple(tuple) => tuple.iter().enumerate().map(number).collect(),
        Container::Named(record) => {
            let names = record.names()?.into_iter().map(|name| Ok(name.into_pyobject(py)?.into_any()));
            names.zip(record.parts.iter()).map(|(name, part): (PyResult<_>, _)| Ok((name?, part))).collect()
        }
        Container::Mapping(mapping) => mapping
            .try_iter()?
            .map(|key| {
                let key = key?;
                let part = mapping.get_item(&key)?;
                Ok((key, part))
            })
            .collect(),
    }
}
