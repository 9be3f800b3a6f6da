//! Python's nested structures: lists, tuples, named tuples and mappings around leaves.
//!
//! The order of the leaves is the one of Rust's [`relive_tensor::Nest`]: by position, and in mappings by sorted key.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyMapping, PyTuple, PyType};
use relive_tensor::Nest;

/// Structures deeper than this are refused; recursion would end the process at some depth.
pub(crate) const MAX_DEPTH: usize = 64;

/// What kind of container an object is.
pub(crate) enum Container<'py> {
    List(Bound<'py, PyList>),
    Tuple(Bound<'py, PyTuple>),
    Named(Bound<'py, PyTuple>),
    Mapping(Bound<'py, PyAny>),
    /// No container.
    Leaf,
}

impl<'py> Container<'py> {
    pub(crate) fn of(object: &Bound<'py, PyAny>) -> PyResult<Container<'py>> {
        if let Ok(list) = object.cast::<PyList>() {
            return Ok(Container::List(list.clone()));
        }
        if let Ok(tuple) = object.cast::<PyTuple>() {
            let named = !tuple.is_exact_instance_of::<PyTuple>() && object.hasattr(intern!(object.py(), "_fields"))?;
            return Ok(if named { Container::Named(tuple.clone()) } else { Container::Tuple(tuple.clone()) });
        }
        if object.is_instance_of::<PyDict>() || object.cast::<PyMapping>().is_ok() {
            return Ok(Container::Mapping(object.clone()));
        }
        Ok(Container::Leaf)
    }
}

/// A structure without its leaves, which can be put around others.
#[derive(Debug)]
pub(crate) enum Structure {
    Leaf,
    List(Vec<Structure>),
    Tuple(Vec<Structure>),
    Named(Py<PyType>, Vec<Structure>),
    /// Keys in the order of the original; the parts in sorted order, each with the position of its key.
    Mapping { class: Py<PyType>, keys: Vec<Py<PyAny>>, parts: Vec<(usize, Structure)> },
}

/// The leaves of `object` in flattening order, and the structure around them.
pub(crate) fn flatten<'py>(object: &Bound<'py, PyAny>) -> PyResult<(Structure, Vec<Bound<'py, PyAny>>)> {
    let mut leaves = Vec::new();
    let structure = flatten_into(object, &mut leaves, 0)?;
    Ok((structure, leaves))
}

fn flatten_into<'py>(
    object: &Bound<'py, PyAny>,
    leaves: &mut Vec<Bound<'py, PyAny>>,
    depth: usize,
) -> PyResult<Structure> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    let mut part = |object: Bound<'py, PyAny>| flatten_into(&object, leaves, depth + 1);
    Ok(match Container::of(object)? {
        Container::Leaf => {
            leaves.push(object.clone());
            Structure::Leaf
        }
        Container::List(list) => Structure::List(list.iter().map(part).collect::<PyResult<_>>()?),
        Container::Tuple(tuple) => Structure::Tuple(tuple.iter().map(part).collect::<PyResult<_>>()?),
        Container::Named(tuple) => {
            Structure::Named(tuple.get_type().unbind(), tuple.iter().map(part).collect::<PyResult<_>>()?)
        }
        Container::Mapping(mapping) => {
            let (keys, order) = sorted_keys(&mapping)?;
            let mut parts = Vec::with_capacity(order.len());
            for (position, key) in order {
                parts.push((position, part(mapping.get_item(key)?)?));
            }
            Structure::Mapping {
                class: mapping.get_type().unbind(),
                keys: keys.into_iter().map(Bound::unbind).collect(),
                parts,
            }
        }
    })
}

type Keys<'py> = Vec<Bound<'py, PyAny>>;

/// The keys of a mapping as they come, and with their positions in sorted order.
pub(crate) fn sorted_keys<'py>(
    mapping: &Bound<'py, PyAny>,
) -> PyResult<(Keys<'py>, Vec<(usize, Bound<'py, PyAny>)>)> {
    let keys: Keys<'py> = mapping.try_iter()?.collect::<PyResult<_>>()?;
    let sorted = PyList::new(mapping.py(), &keys)?;
    sorted.sort().map_err(|error| {
        let message = format!("the keys of a mapping must be sortable, which is the order of the columns: {error}");
        PyTypeError::new_err(message)
    })?;
    let mut order = Vec::with_capacity(keys.len());
    for key in sorted.iter() {
        let position = keys.iter().position(|known| known.is(&key)).unwrap_or(0);
        order.push((position, key));
    }
    Ok((keys, order))
}

impl Structure {
    /// Puts the structure around `leaves`, which must be as many as it has places.
    pub(crate) fn unflatten<'py>(
        &self,
        py: Python<'py>,
        leaves: &mut impl Iterator<Item = Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Structure::Leaf => {
                leaves.next().ok_or_else(|| PyValueError::new_err("the structure has more leaves than columns"))
            }
            Structure::List(parts) => Ok(PyList::new(py, unflatten_all(parts, py, leaves)?)?.into_any()),
            Structure::Tuple(parts) => Ok(PyTuple::new(py, unflatten_all(parts, py, leaves)?)?.into_any()),
            Structure::Named(class, parts) => {
                class.bind(py).call1(PyTuple::new(py, unflatten_all(parts, py, leaves)?)?)
            }
            Structure::Mapping { class, keys, parts } => {
                let mut values: Vec<Option<Bound<'py, PyAny>>> = keys.iter().map(|_| None).collect();
                for (position, part) in parts {
                    let value = part.unflatten(py, leaves)?;
                    if let Some(place) = values.get_mut(*position) {
                        *place = Some(value);
                    }
                }
                let dict = PyDict::new(py);
                for (key, value) in keys.iter().zip(values) {
                    dict.set_item(key, value)?;
                }
                if class.bind(py).is(dict.get_type()) { Ok(dict.into_any()) } else { class.bind(py).call1((dict,)) }
            }
        }
    }
}

fn unflatten_all<'py>(
    parts: &[Structure],
    py: Python<'py>,
    leaves: &mut impl Iterator<Item = Bound<'py, PyAny>>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    parts.iter().map(|part| part.unflatten(py, leaves)).collect()
}

pub(crate) fn too_deep() -> PyErr {
    PyValueError::new_err(format!("structures may be nested {MAX_DEPTH} deep at most"))
}

/// A Python structure as a Rust one; keys become text.
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
        Container::Named(tuple) => {
            let names: Vec<String> = tuple.getattr("_fields")?.extract()?;
            let parts = tuple.iter().map(part).collect::<PyResult<Vec<_>>>()?;
            let name = tuple.get_type().name()?.to_string();
            Nest::NamedTuple { name, fields: names.into_iter().zip(parts).collect() }
        }
        Container::Mapping(mapping) => {
            let mut fields = std::collections::BTreeMap::new();
            for key in mapping.try_iter()? {
                let key = key?;
                fields.insert(key.str()?.to_string(), part(mapping.get_item(&key)?)?);
            }
            Nest::Dict(fields)
        }
    })
}

/// A Rust structure as a Python one. Named tuples get a class of their name.
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

/// The class of named tuples of that name and those fields; the same one each time, so that `type(a) is type(b)`.
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
