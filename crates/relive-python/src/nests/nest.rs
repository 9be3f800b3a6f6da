//! Python's nested structures: lists, deques, tuples, named tuples, mappings and attrs classes around leaves.
//!
//! Leaves are ordered as in Rust's [`relive_tensor::Nest`]: by position, and in mappings by sorted key.

use numpy::PyUntypedArray;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple, PyType};
use relive_tensor::Nest;
use smallvec::SmallVec;

use super::column::TrajectoryColumn;
use super::record::{Record, is_attrs};
use crate::arrays::dtypes;

/// Deeper structures are rejected, because unbounded recursion would overflow the stack.
pub(crate) const MAX_DEPTH: usize = 64;

/// The kind of a container.
pub(crate) enum Container<'py> {
    List(Bound<'py, PyList>),
    Tuple(Bound<'py, PyTuple>),
    Named(Record<'py>),
    Mapping(Bound<'py, PyAny>),
    /// Not a container.
    Leaf,
}

impl<'py> Container<'py> {
    pub(crate) fn of(object: &Bound<'py, PyAny>) -> PyResult<Container<'py>> {
        if let Ok(list) = object.cast::<PyList>() {
            return Ok(Container::List(list.clone()));
        }
        if let Ok(tuple) = object.cast::<PyTuple>() {
            let named = !tuple.is_exact_instance_of::<PyTuple>()
                && object.hasattr(intern!(object.py(), "_fields"))?;
            let record = || Record { class: object.get_type(), parts: tuple.clone() };
            return Ok(if named { Container::Named(record()) } else { Container::Tuple(tuple.clone()) });
        }
        if object.is_instance_of::<PyDict>() {
            return Ok(Container::Mapping(object.clone()));
        }
        if is_plain(object) {
            return Ok(Container::Leaf);
        }
        if object.cast::<PyMapping>().is_ok() {
            return Ok(Container::Mapping(object.clone()));
        }
        if is_deque(object)? {
            let parts = object.try_iter()?.collect::<PyResult<Vec<_>>>()?;
            return Ok(Container::List(PyList::new(object.py(), parts)?));
        }
        if is_attrs(&object.get_type())? {
            return Ok(Container::Named(Record::of_attrs(object)?));
        }
        Ok(Container::Leaf)
    }
}

/// Returns whether the object is one of the common leaves. For other objects, Python code must determine whether they
/// are mappings. This takes time, and the call does not return if the interpreter is finalized in the meantime.
fn is_plain(object: &Bound<'_, PyAny>) -> bool {
    object.is_none()
        || object.is_instance_of::<PyUntypedArray>()
        || object.is_instance_of::<PyFloat>()
        || object.is_instance_of::<PyInt>()
        || object.is_instance_of::<PyString>()
        || object.is_instance_of::<PyBytes>()
        || object.is_instance_of::<TrajectoryColumn>()
        || is_numpy_scalar(object)
}

fn is_deque(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    static DEQUE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let py = object.py();
    let deque = DEQUE.import(py, "collections", "deque")?;
    // Checks the class itself, for the reason given below.
    object.get_type().is_subclass(deque)
}

fn is_numpy_scalar(object: &Bound<'_, PyAny>) -> bool {
    static GENERIC: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let py = object.py();
    let generic = GENERIC.get_or_try_init(py, || {
        Ok::<_, PyErr>(dtypes::numpy(py)?.getattr("generic")?.cast_into::<PyType>()?.unbind())
    });
    // Checks the class itself: inspecting instances would run Python code.
    generic.is_ok_and(|generic| object.get_type().is_subclass(generic.bind(py)).unwrap_or(false))
}

/// Returns whether the object is a written-out array: a non-empty list of Python's own numbers, or of such lists with
/// one shape.
pub(crate) fn is_written_out(object: &Bound<'_, PyAny>) -> bool {
    object.cast_exact::<PyList>().is_ok_and(|list| written_dims(list, 0).is_some())
}

fn written_dims(list: &Bound<'_, PyList>, depth: usize) -> Option<SmallVec<[usize; 4]>> {
    let of_part = |part: Bound<'_, PyAny>| match part.cast_exact::<PyList>() {
        Ok(list) if depth < MAX_DEPTH => written_dims(list, depth + 1),
        _ => is_python_number(&part).then(SmallVec::new),
    };
    let mut parts = list.iter().map(of_part);
    let mut dims = parts.next()??;
    let is_even = parts.all(|part| part.as_ref() == Some(&dims));
    dims.insert(0, list.len());
    is_even.then_some(dims)
}

fn is_python_number(object: &Bound<'_, PyAny>) -> bool {
    object.is_exact_instance_of::<PyFloat>()
        || object.is_exact_instance_of::<PyInt>()
        || object.is_exact_instance_of::<PyBool>()
}

/// Returns the step with lists of numbers replaced by arrays. A step that is itself a list of numbers is not replaced.
/// If the step contains no such lists, returns the same object.
pub(crate) fn with_lists_joined<'py>(step: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    joined(step, 0)
}

fn joined<'py>(object: &Bound<'py, PyAny>, depth: usize) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    if depth > 0 && is_written_out(object) {
        return dtypes::numpy(py)?.call_method1(intern!(py, "asarray"), (object,));
    }
    let all = |parts: &mut dyn Iterator<Item = Bound<'py, PyAny>>| {
        parts.map(|part| joined(&part, depth + 1)).collect::<PyResult<Vec<_>>>()
    };
    if let Ok(dict) = object.cast_exact::<PyDict>() {
        let copy = PyDict::new(py);
        for (key, value) in dict {
            copy.set_item(key, joined(&value, depth + 1)?)?;
        }
        return Ok(copy.into_any());
    }
    if let Ok(list) = object.cast_exact::<PyList>() {
        return Ok(PyList::new(py, all(&mut list.iter())?)?.into_any());
    }
    if let Ok(tuple) = object.cast_exact::<PyTuple>() {
        return Ok(PyTuple::new(py, all(&mut tuple.iter())?)?.into_any());
    }
    Ok(object.clone())
}

/// Returns the leaves of `object` in flattening order.
pub(crate) fn leaves<'py>(object: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    // Most items have few columns.
    let mut found = Vec::with_capacity(8);
    add_leaves(object, &mut found, 0)?;
    Ok(found)
}

fn add_leaves<'py>(
    object: &Bound<'py, PyAny>,
    found: &mut Vec<Bound<'py, PyAny>>,
    depth: usize,
) -> PyResult<()> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    let mut add = |part: Bound<'py, PyAny>| add_leaves(&part, found, depth + 1);
    match Container::of(object)? {
        Container::Leaf => {
            found.push(object.clone());
            Ok(())
        }
        Container::List(list) => list.iter().try_for_each(add),
        Container::Tuple(parts) | Container::Named(Record { parts, .. }) => parts.iter().try_for_each(add),
        Container::Mapping(mapping) => match sorted_values(&mapping) {
            Some(values) => values.into_iter().try_for_each(add),
            None => sorted_keys(&mapping)?.into_iter().try_for_each(|key| add(mapping.get_item(key)?)),
        },
    }
}

/// Returns the parts of a dict in the order of its leaves if its keys are plain text, because their order is then known
/// without running Python code.
fn sorted_values<'py>(mapping: &Bound<'py, PyAny>) -> Option<SmallVec<[Bound<'py, PyAny>; 8]>> {
    let dict = mapping.cast_exact::<PyDict>().ok()?;
    if dict.len() <= 1 {
        return Some(dict.iter().map(|(_, value)| value).collect());
    }
    let parts: SmallVec<[_; 8]> = dict
        .iter()
        .map(|(key, value)| Some((key.cast_into_exact::<PyString>().ok()?, value)))
        .collect::<Option<_>>()?;
    let mut named = SmallVec::<[(&str, &Bound<'py, PyAny>); 8]>::new();
    for (key, value) in &parts {
        named.push((key.to_str().ok()?, value));
    }
    // Python orders text by code point, which is the order of its UTF-8 bytes.
    named.sort_unstable_by_key(|(name, _)| *name);
    Some(named.into_iter().map(|(_, value)| value.clone()).collect())
}

/// Returns the keys of a mapping in the order of its leaves.
pub(crate) fn sorted_keys<'py>(mapping: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let keys: Vec<Bound<'py, PyAny>> = mapping.try_iter()?.collect::<PyResult<_>>()?;
    let keys = PyList::new(mapping.py(), keys)?;
    keys.sort().map_err(|error| {
        let message = format!(
            "the keys of a mapping must be sortable, because they determine the order of the columns: {error}"
        );
        PyTypeError::new_err(message)
    })?;
    Ok(keys.iter().collect())
}

pub(crate) fn too_deep() -> PyErr {
    PyValueError::new_err(format!("structures can be nested at most {MAX_DEPTH} levels deep"))
}

/// Converts a Python structure to a Rust one, and its keys to text.
pub(crate) fn to_nest<T>(
    object: &Bound<'_, PyAny>,
    leaf: &mut impl FnMut(&Bound<'_, PyAny>) -> PyResult<T>,
) -> PyResult<Nest<T>> {
    to_nest_at(object, leaf, 0)
}

fn to_nest_at<T>(
    object: &Bound<'_, PyAny>,
    leaf: &mut impl FnMut(&Bound<'_, PyAny>) -> PyResult<T>,
    depth: usize,
) -> PyResult<Nest<T>> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    if object.is_none() {
        return Ok(Nest::None);
    }
    let mut part = |object: Bound<'_, PyAny>| to_nest_at(&object, leaf, depth + 1);
    Ok(match Container::of(object)? {
        Container::Leaf => Nest::Leaf(leaf(object)?),
        Container::List(list) => Nest::List(list.iter().map(part).collect::<PyResult<_>>()?),
        Container::Tuple(tuple) => Nest::Tuple(tuple.iter().map(part).collect::<PyResult<_>>()?),
        Container::Named(record) => {
            let names = record.names()?;
            let parts = record.parts.iter().map(part).collect::<PyResult<Vec<_>>>()?;
            let name = record.class.name()?.to_string();
            Nest::NamedTuple { name, fields: names.into_iter().zip(parts).collect() }
        }
        Container::Mapping(mapping) => {
            let mut fields = std::collections::BTreeMap::new();
            for key in mapping.try_iter()? {
                let key = key?;
                let Ok(name) = key.extract::<String>() else {
                    let text = "the keys of a mapping must be strings here, because columns are ordered by them, got";
                    return Err(PyTypeError::new_err(format!("{text} {key}")));
                };
                fields.insert(name, part(mapping.get_item(&key)?)?);
            }
            Nest::Dict(fields)
        }
    })
}

/// Returns whether the nest contains a `None`.
pub(crate) fn has_none<T>(nest: &Nest<T>) -> bool {
    match nest {
        Nest::None => true,
        Nest::Leaf(_) => false,
        Nest::List(parts) | Nest::Tuple(parts) => parts.iter().any(has_none),
        Nest::NamedTuple { fields, .. } => fields.iter().any(|(_, part)| has_none(part)),
        Nest::Dict(fields) => fields.values().any(has_none),
    }
}

/// Converts a Rust structure to a Python one. Named tuples become instances of a class with their name.
pub(crate) fn from_nest<'py, T>(
    py: Python<'py>,
    nest: &Nest<T>,
    leaf: &mut impl FnMut(&T) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    Ok(match nest {
        Nest::Leaf(value) => leaf(value)?,
        Nest::None => py.None().into_bound(py),
        Nest::List(parts) => {
            let parts = parts.iter().map(|part| from_nest(py, part, leaf)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, parts)?.into_any()
        }
        Nest::Tuple(parts) => {
            let parts = parts.iter().map(|part| from_nest(py, part, leaf)).collect::<PyResult<Vec<_>>>()?;
            PyTuple::new(py, parts)?.into_any()
        }
        Nest::Dict(fields) => {
            let dict = PyDict::new(py);
            for (key, part) in fields {
                dict.set_item(key, from_nest(py, part, leaf)?)?;
            }
            dict.into_any()
        }
        Nest::NamedTuple { name, fields } => {
            let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
            let parts =
                fields.iter().map(|(_, part)| from_nest(py, part, leaf)).collect::<PyResult<Vec<_>>>()?;
            named_tuple_class(py, name, &names)?.call1(PyTuple::new(py, parts)?)?
        }
    })
}

/// Returns the class of named tuples with the given name and fields. It is always the same class, so that `type(a) is
/// type(b)`.
fn named_tuple_class<'py>(py: Python<'py>, name: &str, fields: &[&str]) -> PyResult<Bound<'py, PyAny>> {
    static CLASSES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let classes = CLASSES.get_or_init(py, || PyDict::new(py).unbind()).bind(py);
    let key = (name, PyTuple::new(py, fields)?).into_pyobject(py)?;
    if let Some(known) = classes.get_item(&key)? {
        return Ok(known);
    }
    let class = py.import("collections")?.getattr("namedtuple")?.call1((name, fields.to_vec()))?;
    classes.set_item(key, &class)?;
    Ok(class)
}
