//! Converts the structure of a table's items between Python and Rust.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use relive_client::TrajectoryWriter;
use relive_tensor::{Nest, Tensor};

use super::column::TrajectoryColumn;
use super::nest::{self, Container, MAX_DEPTH};
use super::place::at_leaf;
use crate::arrays::array;
use crate::error::OrRaise;

/// Checks that items of `table` may have the structure of `trajectory`, and returns false if this requires a request to
/// the server.
pub(crate) fn agree_on_columns(
    writer: &mut TrajectoryWriter,
    table: &str,
    trajectory: &Bound<'_, PyAny>,
) -> PyResult<bool> {
    if let Some(kept) = writer.agreed_columns(table)
        && clearly_fits(trajectory, &kept.names)
    {
        return Ok(true);
    }
    if writer.has_named_columns(table) {
        return Ok(true);
    }
    // If the item has no columns, the code that creates it reports this.
    let structure = structure_of(trajectory)?.filter(|structure| !structure.is_empty());
    structure
        .map_or(Ok(true), |structure| writer.agree_on_columns(table, &structure).or_raise(trajectory.py()))
}

/// Returns true if `object` consists of common containers and has the columns of `kept`. Runs no Python code and
/// allocates nothing.
fn clearly_fits(object: &Bound<'_, PyAny>, kept: &Nest<()>) -> bool {
    match kept {
        Nest::Leaf(()) => object.cast::<TrajectoryColumn>().is_ok(),
        Nest::Dict(fields) => object.cast_exact::<PyDict>().is_ok_and(|dict| {
            dict.len() == fields.len()
                && dict.iter().all(|(key, part)| {
                    let name = key.cast_exact::<PyString>().ok().and_then(|key| key.to_str().ok());
                    name.and_then(|name| fields.get(name)).is_some_and(|kept| clearly_fits(&part, kept))
                })
        }),
        Nest::List(parts) | Nest::Tuple(parts) => {
            let fits = |(part, kept): (Bound<'_, PyAny>, &Nest<()>)| clearly_fits(&part, kept);
            if let Ok(list) = object.cast_exact::<PyList>() {
                list.len() == parts.len() && list.iter().zip(parts).all(fits)
            } else if let Ok(tuple) = object.cast_exact::<PyTuple>() {
                tuple.len() == parts.len() && tuple.iter().zip(parts).all(fits)
            } else {
                false
            }
        }
        Nest::NamedTuple { .. } | Nest::None => false,
    }
}

/// Returns the structure around the leaves of `object`. Returns `None` if a mapping has keys that are not text, since
/// their order as text could differ.
pub(crate) fn structure_of(object: &Bound<'_, PyAny>) -> PyResult<Option<Nest<()>>> {
    at_depth(object, 0)
}

fn at_depth(object: &Bound<'_, PyAny>, depth: usize) -> PyResult<Option<Nest<()>>> {
    if depth > MAX_DEPTH {
        return Ok(None);
    }
    let part = |object: Bound<'_, PyAny>| at_depth(&object, depth + 1);
    Ok(match Container::of(object)? {
        Container::Leaf => Some(Nest::Leaf(())),
        Container::List(list) => list.iter().map(part).collect::<PyResult<Option<_>>>()?.map(Nest::List),
        Container::Tuple(tuple) => tuple.iter().map(part).collect::<PyResult<Option<_>>>()?.map(Nest::Tuple),
        Container::Named(record) => {
            let Ok(names) = record.names() else { return Ok(None) };
            let parts: Option<Vec<_>> = record.parts.iter().map(part).collect::<PyResult<_>>()?;
            let name = record.class.name()?.to_string();
            parts.map(|parts| Nest::NamedTuple { name, fields: names.into_iter().zip(parts).collect() })
        }
        Container::Mapping(mapping) => {
            let mut fields = Vec::new();
            for key in mapping.try_iter()? {
                let key = key?;
                let (Ok(name), Some(part)) = (key.extract::<String>(), part(mapping.get_item(&key)?)?) else {
                    return Ok(None);
                };
                fields.push((name, part));
            }
            Some(Nest::Dict(fields.into_iter().collect()))
        }
    })
}

/// Returns the structure of a step that is itself an item: its columns, as a list if its keys are not text.
pub(crate) fn step_of(object: &Bound<'_, PyAny>) -> PyResult<Nest<Tensor>> {
    let tensor =
        |leaf: &Bound<'_, PyAny>| array::to_tensor(leaf).map_err(|error| at_leaf(error, object, leaf));
    let step = match nest::to_nest(object, &mut { tensor }) {
        Err(error) if error.is_instance_of::<PyTypeError>(object.py()) && structure_of(object)?.is_none() => {
            let leaves = nest::leaves(object)?;
            Nest::List(leaves.iter().map(|leaf| Ok(Nest::Leaf(tensor(leaf)?))).collect::<PyResult<_>>()?)
        }
        step => step?,
    };
    if nest::has_none(&step) {
        return Err(PyTypeError::new_err("insert: the step has None in the place of a tensor"));
    }
    Ok(step)
}

/// Returns a structure for Python in which everything except containers is a leaf. Columns are zeros, and places
/// without a column are left out. Returns `None` if the names are invalid for a Python named tuple.
pub(crate) fn to_python<'py>(py: Python<'py>, structure: &Nest<()>) -> Option<Bound<'py, PyAny>> {
    let zero = 0_u8.into_pyobject(py).ok()?.into_any();
    let made = nest::from_nest(py, &without_gaps(structure), &mut |()| Ok(zero.clone()));
    made.inspect_err(|error| tracing::debug!(%error, "columns have names that are invalid in Python")).ok()
}

/// Returns the same columns, with an empty tuple in each place without a column; such places are omitted from dicts.
fn without_gaps(structure: &Nest<()>) -> Nest<()> {
    match structure {
        Nest::Leaf(()) => Nest::Leaf(()),
        Nest::None => Nest::Tuple(Vec::new()),
        Nest::List(parts) => Nest::List(parts.iter().map(without_gaps).collect()),
        Nest::Tuple(parts) => Nest::Tuple(parts.iter().map(without_gaps).collect()),
        Nest::Dict(fields) => {
            let there = fields.iter().filter(|(_, part)| **part != Nest::None);
            Nest::Dict(there.map(|(name, part)| (name.clone(), without_gaps(part))).collect())
        }
        Nest::NamedTuple { name, fields } => {
            let fields = fields.iter().map(|(name, part)| (name.clone(), without_gaps(part))).collect();
            Nest::NamedTuple { name: name.clone(), fields }
        }
    }
}
