//! Nested structures of leaves: steps, trajectories, signatures.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;

/// A structure of lists, tuples, dicts and named tuples around leaves.
///
/// Steps are `Nest<Tensor>`; signatures and the names of columns are also nests.
///
/// # Example
///
/// ```
/// use relive_tensor::Nest;
///
/// let obs = Nest::Tuple(vec![Nest::Leaf(1), Nest::Leaf(2)]);
/// let step: Nest<i32> = Nest::dict([("obs", obs), ("action", Nest::Leaf(3))]);
/// assert_eq!(step.leaves().copied().collect::<Vec<_>>(), [3, 1, 2]);
/// let paths: Vec<String> = step.flatten_with_paths().iter().map(|(path, _)| path.to_string()).collect();
/// assert_eq!(paths, ["action", "obs/0", "obs/1"]);
/// assert_eq!(step.unflatten([30, 10, 20])?, step.map(|leaf| leaf * 10));
/// # Ok::<(), relive_tensor::NestError>(())
/// ```
///
/// # Flattening order
///
/// Lists, tuples and named tuples flatten by position, dicts by sorted key. The leaves in this order are the columns of
/// an item.
///
/// # Empty structures
///
/// [`None`](Self::None), empty containers and containers of such values have no leaves. A single leaf without a
/// container has the empty path `""`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nest<T> {
    /// A leaf, which may be the whole structure.
    Leaf(T),
    /// A list.
    List(Vec<Self>),
    /// A tuple.
    Tuple(Vec<Self>),
    /// A dict, which iterates by sorted key.
    Dict(BTreeMap<String, Self>),
    /// A named tuple, with the name of its class.
    NamedTuple {
        /// The name of the class.
        name: String,
        /// The names and values of the fields, in order.
        fields: Vec<(String, Self)>,
    },
    /// An empty structure without leaves.
    None,
}

/// The reason why leaves do not match a structure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NestError {
    /// The structure has more leaves than were given.
    #[error("structure has {places} leaves, but only {given} were given")]
    TooFew {
        /// The number of leaves of the structure.
        places: usize,
        /// The number of given leaves.
        given: usize,
    },
    /// More leaves were given than the structure has.
    #[error("structure has {places} leaves, but more were given")]
    TooMany {
        /// The number of leaves of the structure.
        places: usize,
    },
}

/// A part of a [`Path`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PathPart {
    /// The position in a list or tuple.
    Index(usize),
    /// The key of a dict, or the field of a named tuple.
    Key(String),
}

/// The path from the root of a [`Nest`] to a leaf, displayed with `/` between the parts, as in `obs/0`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Path(pub Vec<PathPart>);

impl fmt::Display for PathPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(index) => write!(f, "{index}"),
            Self::Key(key) => f.write_str(key),
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, part) in self.0.iter().enumerate() {
            let separator = if depth == 0 { "" } else { "/" };
            write!(f, "{separator}{part}")?;
        }
        Ok(())
    }
}

impl<T> From<T> for Nest<T> {
    fn from(leaf: T) -> Self {
        Self::Leaf(leaf)
    }
}

impl<T> Nest<T> {
    /// Creates a dict of named parts, each a leaf or a nest.
    ///
    /// ```
    /// use relive_tensor::Nest;
    /// let step = Nest::dict([("reward", 1.5), ("action", 2.0)]);
    /// assert_eq!(step.leaves().collect::<Vec<_>>(), [&2.0, &1.5], "leaves come in the order of their names");
    /// ```
    pub fn dict<K: Into<String>, V: Into<Self>>(fields: impl IntoIterator<Item = (K, V)>) -> Self {
        Self::Dict(fields.into_iter().map(|(name, nest)| (name.into(), nest.into())).collect())
    }

    /// Iterates over the leaves in flattening order.
    pub fn leaves(&self) -> Leaves<'_, T> {
        Leaves { todo: vec![self] }
    }

    /// Returns the number of leaves.
    #[must_use]
    pub fn len(&self) -> usize {
        self.leaves().count()
    }

    /// Returns whether there are no leaves. This is the case for dm-reverb's "falsy" signatures `None`, `()` and `{}`.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.leaves().next().is_none()
    }

    /// Applies `change` to each leaf, and returns the results in the same structure.
    pub fn map<U>(&self, mut change: impl FnMut(&T) -> U) -> Nest<U> {
        match self.try_map::<U, Infallible>(&mut |leaf| Ok(change(leaf))) {
            Ok(nest) => nest,
        }
    }

    /// Like [`map`](Self::map), but for a fallible `change`.
    ///
    /// # Errors
    /// The first error that `change` returns, in flattening order.
    pub fn try_map<U, E>(&self, change: &mut impl FnMut(&T) -> Result<U, E>) -> Result<Nest<U>, E> {
        Ok(match self {
            Self::Leaf(leaf) => Nest::Leaf(change(leaf)?),
            Self::List(items) => {
                Nest::List(items.iter().map(|i| i.try_map(change)).collect::<Result<_, _>>()?)
            }
            Self::Tuple(items) => {
                Nest::Tuple(items.iter().map(|i| i.try_map(change)).collect::<Result<_, _>>()?)
            }
            Self::Dict(items) => {
                let pair = |(key, item): (&String, &Self)| Ok((key.clone(), item.try_map(change)?));
                Nest::Dict(items.iter().map(pair).collect::<Result<_, _>>()?)
            }
            Self::NamedTuple { name, fields } => {
                let pair = |(key, item): &(String, Self)| Ok((key.clone(), item.try_map(change)?));
                Nest::NamedTuple {
                    name: name.clone(),
                    fields: fields.iter().map(pair).collect::<Result<_, _>>()?,
                }
            }
            Self::None => Nest::None,
        })
    }

    /// Returns `leaves`, given in flattening order, in this structure.
    ///
    /// # Errors
    /// [`NestError`] if their number differs from the structure's number of leaves.
    pub fn unflatten<U>(&self, leaves: impl IntoIterator<Item = U>) -> Result<Nest<U>, NestError> {
        let mut leaves = leaves.into_iter();
        let mut given = 0;
        let nest = self.try_map(&mut |_| {
            let leaf = leaves.next().ok_or_else(|| NestError::TooFew { places: self.len(), given })?;
            given += 1;
            Ok(leaf)
        })?;
        match leaves.next() {
            None => Ok(nest),
            Some(_) => Err(NestError::TooMany { places: given }),
        }
    }

    /// Returns the leaves with their paths, in flattening order.
    #[must_use]
    pub fn flatten_with_paths(&self) -> Vec<(Path, &T)> {
        let mut found = Vec::new();
        self.walk(&mut Vec::new(), &mut found);
        found
    }

    fn walk<'a>(&'a self, here: &mut Vec<PathPart>, found: &mut Vec<(Path, &'a T)>) {
        let mut enter = |part: PathPart, child: &'a Self| {
            here.push(part);
            child.walk(here, found);
            here.pop();
        };
        match self {
            Self::Leaf(leaf) => found.push((Path(here.clone()), leaf)),
            Self::List(items) | Self::Tuple(items) => {
                items.iter().enumerate().for_each(|(index, item)| enter(PathPart::Index(index), item));
            }
            Self::Dict(items) => items.iter().for_each(|(key, item)| enter(PathPart::Key(key.clone()), item)),
            Self::NamedTuple { fields, .. } => {
                fields.iter().for_each(|(key, item)| enter(PathPart::Key(key.clone()), item));
            }
            Self::None => {}
        }
    }
}

/// Iterator over the leaves of a [`Nest`] in flattening order.
#[derive(Clone, Debug)]
pub struct Leaves<'a, T> {
    /// The nests that are still to be visited; the next one is the last.
    todo: Vec<&'a Nest<T>>,
}

impl<'a, T> Iterator for Leaves<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        while let Some(nest) = self.todo.pop() {
            match nest {
                Nest::Leaf(leaf) => return Some(leaf),
                Nest::List(items) | Nest::Tuple(items) => self.todo.extend(items.iter().rev()),
                Nest::Dict(items) => self.todo.extend(items.values().rev()),
                Nest::NamedTuple { fields, .. } => {
                    self.todo.extend(fields.iter().rev().map(|(_, item)| item));
                }
                Nest::None => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Nest<i32> {
        let named = Nest::NamedTuple {
            name: "Step".to_owned(),
            fields: vec![("z".to_owned(), Nest::Leaf(3)), ("a".to_owned(), Nest::Leaf(4))],
        };
        Nest::Dict(BTreeMap::from([
            ("b".to_owned(), Nest::Tuple(vec![named, Nest::None, Nest::Leaf(5)])),
            ("B".to_owned(), Nest::Leaf(1)),
            ("a".to_owned(), Nest::List(vec![Nest::Leaf(2)])),
            ("é".to_owned(), Nest::Leaf(6)),
        ]))
    }

    #[test]
    fn flattening_sorts_dicts_only() {
        let nest = example();
        assert_eq!(nest.leaves().copied().collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
        let paths: Vec<_> = nest.flatten_with_paths().iter().map(|(path, _)| path.to_string()).collect();
        assert_eq!(paths, ["B", "a/0", "b/0/z", "b/0/a", "b/2", "é"]);
        assert_eq!(nest.len(), 6);
    }

    #[test]
    fn unflatten_is_the_inverse_of_leaves() {
        let nest = example();
        assert_eq!(nest.unflatten(nest.leaves().copied()), Ok(nest.clone()));
        assert_eq!(nest.unflatten([1, 2]), Err(NestError::TooFew { places: 6, given: 2 }));
        assert_eq!(nest.unflatten(0..7), Err(NestError::TooMany { places: 6 }));
        assert_eq!(nest.map(|leaf| leaf * 10).leaves().sum::<i32>(), 210);
    }

    #[test]
    fn empty_structures_have_no_leaves() {
        assert!(Nest::<i32>::None.is_empty());
        assert!(Nest::<i32>::Tuple(vec![Nest::Dict(BTreeMap::new())]).is_empty());
        assert!(!Nest::Leaf(0).is_empty());
        assert_eq!(Nest::Leaf(0).flatten_with_paths()[0].0.to_string(), "");
    }
}
