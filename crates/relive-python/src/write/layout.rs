//! The layout of a writer's columns. It is the union of the structures of all steps so far, and maps their leaves to
//! columns.
//!
//! Each new leaf becomes a new column; columns are numbered in the order in which leaves first appear. A step may lack
//! leaves, or have `None` in their place.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyTuple, PyType};
use relive_tensor::Nest;
use smallvec::SmallVec;

use crate::nests::nest::{Container, MAX_DEPTH, is_written_out, sorted_keys, too_deep};
use crate::nests::record::{Record, field_names, instance};

/// Leaves of a step with their column numbers.
pub(crate) type Leaves<'py> = SmallVec<[(usize, Bound<'py, PyAny>); 8]>;

#[derive(Default)]
pub(crate) struct Layout {
    root: Node,
    paths: Vec<Path>,
    lists: Lists,
}

/// How lists of numbers in a step are interpreted.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Lists {
    /// As a nest of scalars, as in dm-reverb.
    #[default]
    Nests,
    /// As a single array, unless the list is the step itself or was a nest in an earlier step.
    Arrays,
}

impl Lists {
    /// Returns whether `object` is interpreted as an array.
    fn join(self, object: &Bound<'_, PyAny>) -> bool {
        self == Lists::Arrays && is_written_out(object)
    }
}

/// The path to a column: as a Python object, and as text joined by `/`.
pub(crate) struct Path {
    pub(crate) parts: Py<PyTuple>,
    pub(crate) text: String,
}

#[derive(Default)]
enum Node {
    /// No value has been seen at this place.
    #[default]
    Vacant,
    /// Only `None` has been seen at this place. It counts as a column until it turns out to be a container.
    Empty(usize),
    Column(usize),
    List(Vec<Node>),
    Tuple(Vec<Node>),
    Named(Py<PyType>, Vec<Node>),
    /// A mapping of the kind that was seen, with its parts in the order in which they first appeared.
    Mapping(Like, Vec<(Py<PyAny>, Node)>),
}

/// How to create a mapping.
enum Like {
    Class(Py<PyType>),
    /// A `defaultdict`, created from its factory and a dict.
    Default(Py<PyType>, Py<PyAny>),
}

impl Layout {
    /// Returns a layout without places.
    pub(crate) fn new(lists: Lists) -> Layout {
        Layout { lists, ..Layout::default() }
    }

    /// Returns a layout without places that interprets lists in the same way.
    pub(crate) fn emptied(&self) -> Layout {
        Layout::new(self.lists)
    }

    pub(crate) fn is_empty(&self) -> bool {
        matches!(self.root, Node::Vacant)
    }

    pub(crate) fn paths(&self) -> &[Path] {
        &self.paths
    }

    /// Returns the leaves of `step`, if all its places are known.
    pub(crate) fn place<'py>(&self, step: &Bound<'py, PyAny>) -> PyResult<Option<Leaves<'py>>> {
        let mut leaves = Leaves::new();
        Ok(self.root.place(step, self.lists, &mut leaves)?.then_some(leaves))
    }

    /// Returns a layout extended by the places of `step`.
    pub(crate) fn grown(&self, step: &Bound<'_, PyAny>) -> PyResult<Layout> {
        let py = step.py();
        let mut grown = Layout {
            root: self.root.clone_ref(py),
            paths: self.paths.iter().map(|path| path.clone_ref(py)).collect(),
            lists: self.lists,
        };
        let Layout { root, paths, lists } = &mut grown;
        grow_node(root, step, *lists, &mut Vec::new(), paths)?;
        Ok(grown)
    }

    /// Returns the structure with `leaf(column)` in the place of each column.
    pub(crate) fn map<'py>(
        &self,
        py: Python<'py>,
        leaf: &mut impl FnMut(usize) -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.root.map(py, leaf)
    }

    /// Returns the structure of an item with all columns, or `None` if the columns are ordered differently from the
    /// leaves of steps, or if keys are not text.
    pub(crate) fn structure(&self, py: Python<'_>) -> Option<Nest<()>> {
        let nest = self.root.nest(py).filter(|nest| nest.leaves().copied().eq(0..self.paths.len()))?;
        (!nest.is_empty()).then(|| nest.map(|_| ()))
    }
}

impl Path {
    fn new(parts: &[Bound<'_, PyAny>], py: Python<'_>) -> PyResult<Path> {
        let texts = parts.iter().map(|part| Ok(part.str()?.to_string())).collect::<PyResult<Vec<_>>>()?;
        Ok(Path { parts: PyTuple::new(py, parts)?.unbind(), text: texts.join("/") })
    }

    fn clone_ref(&self, py: Python<'_>) -> Path {
        Path { parts: self.parts.clone_ref(py), text: self.text.clone() }
    }
}

impl Node {
    fn clone_ref(&self, py: Python<'_>) -> Node {
        let all = |nodes: &[Node]| nodes.iter().map(|node| node.clone_ref(py)).collect();
        match self {
            Node::Vacant => Node::Vacant,
            Node::Empty(column) => Node::Empty(*column),
            Node::Column(column) => Node::Column(*column),
            Node::List(parts) => Node::List(all(parts)),
            Node::Tuple(parts) => Node::Tuple(all(parts)),
            Node::Named(class, parts) => Node::Named(class.clone_ref(py), all(parts)),
            Node::Mapping(class, parts) => {
                let parts = parts.iter().map(|(key, node)| (key.clone_ref(py), node.clone_ref(py)));
                Node::Mapping(class.clone_ref(py), parts.collect())
            }
        }
    }

    /// Returns the column numbers in their structure, or `None` if a key is not text.
    fn nest(&self, py: Python<'_>) -> Option<Nest<usize>> {
        let all = |parts: &[Node]| parts.iter().map(|part| part.nest(py)).collect::<Option<Vec<_>>>();
        Some(match self {
            Node::Vacant => Nest::None,
            Node::Column(column) | Node::Empty(column) => Nest::Leaf(*column),
            Node::List(parts) => Nest::List(all(parts)?),
            Node::Tuple(parts) => Nest::Tuple(all(parts)?),
            Node::Named(class, parts) => {
                let class = class.bind(py);
                let names = field_names(class).ok()?;
                let names: Vec<String> =
                    names.iter().map(|name| name.extract().ok()).collect::<Option<_>>()?;
                let name = class.name().ok()?.to_string();
                Nest::NamedTuple { name, fields: names.into_iter().zip(all(parts)?).collect() }
            }
            Node::Mapping(_, parts) => {
                let field = |(key, part): &(Py<PyAny>, Node)| Some((key.extract(py).ok()?, part.nest(py)?));
                Nest::Dict(parts.iter().map(field).collect::<Option<_>>()?)
            }
        })
    }

    /// Adds the leaves of `object`, and returns false if it has a place that this node lacks.
    fn place<'py>(
        &self,
        object: &Bound<'py, PyAny>,
        lists: Lists,
        leaves: &mut Leaves<'py>,
    ) -> PyResult<bool> {
        if object.is_none() {
            return Ok(!matches!(self, Node::Vacant));
        }
        match self {
            Node::Vacant | Node::Empty(_) => Ok(false),
            Node::Column(column) => {
                leaves.push((*column, object.clone()));
                // A container in the place of a leaf is detected later, when it is converted to a tensor or the layout
                // is extended.
                Ok(matches!(Container::of(object)?, Container::Leaf) || lists.join(object))
            }
            Node::Named(_, parts) => match object.cast::<PyTuple>() {
                Ok(tuple) if tuple.len() <= parts.len() => place_all(parts, tuple.iter(), lists, leaves),
                Ok(_) => Ok(false),
                Err(_) => match Container::of(object)? {
                    Container::Named(record) if record.parts.len() <= parts.len() => {
                        place_all(parts, record.parts.iter(), lists, leaves)
                    }
                    _ => Ok(false),
                },
            },
            Node::List(parts) | Node::Tuple(parts) => match Container::of(object)? {
                Container::List(list) if list.len() <= parts.len() => {
                    place_all(parts, list.iter(), lists, leaves)
                }
                Container::Tuple(found) | Container::Named(Record { parts: found, .. })
                    if found.len() <= parts.len() =>
                {
                    place_all(parts, found.iter(), lists, leaves)
                }
                _ => Ok(false),
            },
            Node::Mapping(_, parts) => place_mapping(parts, object, lists, leaves),
        }
    }

    fn map<'py>(
        &self,
        py: Python<'py>,
        leaf: &mut impl FnMut(usize) -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let all = |parts: &[Node], leaf: &mut dyn FnMut(usize) -> PyResult<Bound<'py, PyAny>>| {
            parts.iter().map(|part| part.map_dyn(py, leaf)).collect::<PyResult<Vec<_>>>()
        };
        match self {
            Node::Vacant => Ok(py.None().into_bound(py)),
            Node::Column(column) | Node::Empty(column) => leaf(*column),
            Node::List(parts) => Ok(PyList::new(py, all(parts, leaf)?)?.into_any()),
            Node::Tuple(parts) => Ok(PyTuple::new(py, all(parts, leaf)?)?.into_any()),
            Node::Named(class, parts) => instance(class.bind(py), all(parts, leaf)?),
            Node::Mapping(class, parts) => {
                let dict = PyDict::new(py);
                for (key, part) in parts {
                    dict.set_item(key, part.map_dyn(py, leaf)?)?;
                }
                class.filled(&dict)
            }
        }
    }

    fn map_dyn<'py>(
        &self,
        py: Python<'py>,
        mut leaf: &mut dyn FnMut(usize) -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.map(py, &mut leaf)
    }
}

impl Like {
    fn of(mapping: &Bound<'_, PyAny>) -> PyResult<Self> {
        static DEFAULT: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        let py = mapping.py();
        let class = mapping.get_type();
        if class.is_subclass(DEFAULT.import(py, "collections", "defaultdict")?)? {
            let factory = mapping.getattr(intern!(py, "default_factory"))?;
            return Ok(Like::Default(class.unbind(), factory.unbind()));
        }
        Ok(Like::Class(class.unbind()))
    }

    fn clone_ref(&self, py: Python<'_>) -> Self {
        match self {
            Like::Class(class) => Like::Class(class.clone_ref(py)),
            Like::Default(class, factory) => Like::Default(class.clone_ref(py), factory.clone_ref(py)),
        }
    }

    /// Returns a mapping with the contents of `dict`.
    fn filled<'py>(&self, dict: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>> {
        let py = dict.py();
        match self {
            Like::Class(class) if class.bind(py).is(dict.get_type()) => Ok(dict.clone().into_any()),
            Like::Class(class) => class.bind(py).call1((dict,)),
            Like::Default(class, factory) => class.bind(py).call1((factory, dict)),
        }
    }
}

fn place_all<'py>(
    parts: &[Node],
    objects: impl Iterator<Item = Bound<'py, PyAny>>,
    lists: Lists,
    leaves: &mut Leaves<'py>,
) -> PyResult<bool> {
    for (part, object) in parts.iter().zip(objects) {
        if !part.place(&object, lists, leaves)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn place_mapping<'py>(
    parts: &[(Py<PyAny>, Node)],
    object: &Bound<'py, PyAny>,
    lists: Lists,
    leaves: &mut Leaves<'py>,
) -> PyResult<bool> {
    let mut known = 0;
    if let Ok(dict) = object.cast::<PyDict>() {
        for (key, part) in parts {
            let Some(value) = dict.get_item(key)? else { continue };
            known += 1;
            if !part.place(&value, lists, leaves)? {
                return Ok(false);
            }
        }
        return Ok(known == dict.len());
    }
    if !matches!(Container::of(object)?, Container::Mapping(_)) {
        return Ok(false);
    }
    for (key, part) in parts {
        if !object.contains(key)? {
            continue;
        }
        known += 1;
        if !part.place(&object.get_item(key)?, lists, leaves)? {
            return Ok(false);
        }
    }
    Ok(known == object.len()?)
}

type PathParts = Vec<Py<PyAny>>;

/// Adds the places of `object` that `node` lacks.
fn grow_node(
    node: &mut Node,
    object: &Bound<'_, PyAny>,
    lists: Lists,
    path: &mut PathParts,
    paths: &mut Vec<Path>,
) -> PyResult<()> {
    if path.len() > MAX_DEPTH {
        return Err(too_deep());
    }
    let py = object.py();
    let is_joined = !path.is_empty() && !matches!(node, Node::List(_) | Node::Tuple(_)) && lists.join(object);
    let container = if is_joined { Container::Leaf } else { Container::of(object)? };
    *node = match (std::mem::take(node), &container) {
        (Node::Vacant, _) if object.is_none() => Node::Empty(new_column(path, paths, py)?),
        (known, _) if object.is_none() => known,
        (Node::Empty(column), Container::Leaf) => Node::Column(column),
        (Node::Vacant | Node::Empty(_), _) => empty_node(&container, path, paths, py)?,
        (known, _) => known,
    };
    if object.is_none() {
        return Ok(());
    }
    match (node, container) {
        (Node::Column(_), Container::Leaf) => Ok(()),
        // The distinction between lists and tuples does not affect the order of the columns.
        (Node::List(parts) | Node::Tuple(parts), Container::List(list)) => {
            grow_parts(parts, list.iter(), lists, path, paths)
        }
        (Node::List(parts) | Node::Tuple(parts), Container::Tuple(tuple)) => {
            grow_parts(parts, tuple.iter(), lists, path, paths)
        }
        (Node::Named(class, parts), Container::Named(record)) => {
            let class = class.bind(py);
            let fields = field_names(class)?;
            if fields.len() != record.parts.len() {
                return Err(PyValueError::new_err(format!("{} is not a {class}", record.class)));
            }
            grow_fields(parts, &fields, record.parts.iter(), lists, path, paths)
        }
        (Node::Mapping(_, parts), Container::Mapping(mapping)) => {
            grow_mapping(parts, &mapping, lists, path, paths)
        }
        (Node::Column(_), _) => Err(changed(path, py, "a tensor", "a container", object)),
        (_, Container::Leaf) => Err(changed(path, py, "a container", "a tensor", object)),
        (_, _) => Err(changed(path, py, "one kind of container", "another", object)),
    }
}

fn empty_node(
    container: &Container<'_>,
    path: &PathParts,
    paths: &mut Vec<Path>,
    py: Python<'_>,
) -> PyResult<Node> {
    Ok(match container {
        Container::Leaf => Node::Column(new_column(path, paths, py)?),
        Container::List(_) => Node::List(Vec::new()),
        Container::Tuple(_) => Node::Tuple(Vec::new()),
        Container::Named(record) => Node::Named(record.class.clone().unbind(), Vec::new()),
        Container::Mapping(mapping) => Node::Mapping(Like::of(mapping)?, Vec::new()),
    })
}

fn new_column(path: &PathParts, paths: &mut Vec<Path>, py: Python<'_>) -> PyResult<usize> {
    let parts: Vec<_> = path.iter().map(|part| part.bind(py).clone()).collect();
    paths.push(Path::new(&parts, py)?);
    Ok(paths.len() - 1)
}

fn grow_parts<'py>(
    parts: &mut Vec<Node>,
    objects: impl ExactSizeIterator<Item = Bound<'py, PyAny>>,
    lists: Lists,
    path: &mut PathParts,
    paths: &mut Vec<Path>,
) -> PyResult<()> {
    for (index, object) in objects.enumerate() {
        if parts.len() <= index {
            parts.push(Node::Vacant);
        }
        path.push(index.into_pyobject(object.py())?.into_any().unbind());
        if let Some(part) = parts.get_mut(index) {
            grow_node(part, &object, lists, path, paths)?;
        }
        path.pop();
    }
    Ok(())
}

fn grow_fields<'py>(
    parts: &mut Vec<Node>,
    fields: &[Bound<'py, PyAny>],
    objects: impl Iterator<Item = Bound<'py, PyAny>>,
    lists: Lists,
    path: &mut PathParts,
    paths: &mut Vec<Path>,
) -> PyResult<()> {
    parts.resize_with(fields.len(), Node::default);
    for ((part, field), object) in parts.iter_mut().zip(fields).zip(objects) {
        path.push(field.clone().unbind());
        grow_node(part, &object, lists, path, paths)?;
        path.pop();
    }
    Ok(())
}

fn grow_mapping(
    parts: &mut Vec<(Py<PyAny>, Node)>,
    mapping: &Bound<'_, PyAny>,
    lists: Lists,
    path: &mut PathParts,
    paths: &mut Vec<Path>,
) -> PyResult<()> {
    // The parts are in the dict's own order, but the columns are in the order of the sorted keys.
    for key in mapping.try_iter()? {
        let key = key?;
        if position_of(parts, &key)?.is_none() {
            parts.push((key.unbind(), Node::Vacant));
        }
    }
    for key in sorted_keys(mapping)? {
        let Some(index) = position_of(parts, &key)? else { continue };
        let value = mapping.get_item(&key)?;
        path.push(key.unbind());
        if let Some((_, part)) = parts.get_mut(index) {
            grow_node(part, &value, lists, path, paths)?;
        }
        path.pop();
    }
    Ok(())
}

fn position_of(parts: &[(Py<PyAny>, Node)], key: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
    for (position, (known, _)) in parts.iter().enumerate() {
        if known.bind(key.py()).eq(key)? {
            return Ok(Some(position));
        }
    }
    Ok(None)
}

fn changed(path: &PathParts, py: Python<'_>, was: &str, is: &str, object: &Bound<'_, PyAny>) -> PyErr {
    let path = PyTuple::new(py, path).map_or_else(|_| "?".to_owned(), |path| path.to_string());
    let kind = object.get_type();
    PyTypeError::new_err(format!("at {path}, earlier steps had {was}, but this one has {is} ({kind})"))
}
