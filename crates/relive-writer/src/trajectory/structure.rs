//! The union of all of a writer's steps, which maps leaves to columns.

use std::collections::BTreeMap;
use std::sync::Arc;

use relive_connection::{Error, Result};
use relive_tensor::{Nest, Tensor};
use smallvec::SmallVec;

/// Leaves of a step with the numbers of their columns.
pub(crate) type NumberedLeaves<'a> = SmallVec<[(usize, &'a Tensor); 8]>;

/// Columns in the order of their first appearance.
#[derive(Debug, Clone, Default)]
pub(crate) struct Structure {
    root: Node,
    paths: Vec<Arc<str>>,
}

#[derive(Debug, Clone, Default)]
enum Node {
    #[default]
    Unseen,
    Leaf(usize),
    /// Lists and tuples.
    Sequence(Vec<Node>),
    /// Dicts and named tuples.
    Fields(BTreeMap<String, Node>),
}

/// The reason why a step does not fit the current structure.
enum PlacementError {
    /// The step has leaves that did not occur in any earlier step.
    NewLeaf,
    /// The step has a different kind of container, or a leaf in place of a container.
    Clash(String),
}

impl Structure {
    pub(crate) fn paths(&self) -> &[Arc<str>] {
        &self.paths
    }

    /// Returns the structure of a step with every known leaf, with lists for tuples and dicts for named tuples. Returns
    /// `None` without leaves, or if the columns are in a different order because some leaves first appeared later.
    pub(crate) fn nest(&self) -> Option<Nest<()>> {
        let nest = self.root.nest();
        let in_order = !nest.is_empty() && nest.leaves().copied().eq(0..self.paths.len());
        in_order.then(|| nest.map(|_| ()))
    }

    /// Finds the column of every leaf; missing leaves are skipped. For a step with new leaves, also returns the
    /// structure that includes them, which takes effect when the caller stores it.
    pub(crate) fn place<'a>(
        &self,
        step: &'a Nest<Tensor>,
    ) -> Result<(NumberedLeaves<'a>, Option<Structure>)> {
        let mut placed = NumberedLeaves::new();
        match self.root.place(step, &mut placed) {
            Ok(()) => Ok((placed, None)),
            Err(PlacementError::Clash(error)) => Err(Error::invalid(error)),
            Err(PlacementError::NewLeaf) => {
                let mut grown = self.clone();
                grown.root.grow(step, &mut String::new(), &mut grown.paths).map_err(Error::invalid)?;
                placed.clear();
                match grown.root.place(step, &mut placed) {
                    Ok(()) => Ok((placed, Some(grown))),
                    Err(PlacementError::Clash(error)) => Err(Error::invalid(error)),
                    Err(PlacementError::NewLeaf) => {
                        Err(Error::invalid("the step has leaves that cannot be placed"))
                    }
                }
            }
        }
    }
}

impl Node {
    fn nest(&self) -> Nest<usize> {
        match self {
            Node::Unseen => Nest::None,
            Node::Leaf(column) => Nest::Leaf(*column),
            Node::Sequence(nodes) => Nest::List(nodes.iter().map(Node::nest).collect()),
            Node::Fields(nodes) => {
                Nest::Dict(nodes.iter().map(|(key, node)| (key.clone(), node.nest())).collect())
            }
        }
    }

    fn place<'a>(
        &self,
        step: &'a Nest<Tensor>,
        placed: &mut NumberedLeaves<'a>,
    ) -> Result<(), PlacementError> {
        match (self, step) {
            (_, Nest::None) => Ok(()),
            (Node::Leaf(column), Nest::Leaf(value)) => {
                placed.push((*column, value));
                Ok(())
            }
            (Node::Sequence(nodes), Nest::List(items) | Nest::Tuple(items)) => {
                let place =
                    |(i, item): (usize, &'a _)| nodes.get(i).unwrap_or(&Node::Unseen).place(item, placed);
                items.iter().enumerate().try_for_each(place)
            }
            (Node::Fields(nodes), Nest::Dict(items)) => items
                .iter()
                .try_for_each(|(key, item)| nodes.get(key).unwrap_or(&Node::Unseen).place(item, placed)),
            (Node::Fields(nodes), Nest::NamedTuple { fields, .. }) => fields
                .iter()
                .try_for_each(|(key, item)| nodes.get(key).unwrap_or(&Node::Unseen).place(item, placed)),
            (Node::Unseen, _) => Err(PlacementError::NewLeaf),
            (node, step) => Err(PlacementError::Clash(clash(node, step))),
        }
    }

    fn grow(
        &mut self,
        step: &Nest<Tensor>,
        path: &mut String,
        paths: &mut Vec<Arc<str>>,
    ) -> Result<(), String> {
        match (&mut *self, step) {
            (_, Nest::None) | (Node::Leaf(_), Nest::Leaf(_)) => Ok(()),
            (Node::Unseen, Nest::Leaf(_)) => {
                *self = Node::Leaf(paths.len());
                paths.push(Arc::from(path.as_str()));
                Ok(())
            }
            (Node::Unseen, Nest::List(_) | Nest::Tuple(_)) => {
                *self = Node::Sequence(Vec::new());
                self.grow(step, path, paths)
            }
            (Node::Unseen, Nest::Dict(_) | Nest::NamedTuple { .. }) => {
                *self = Node::Fields(BTreeMap::new());
                self.grow(step, path, paths)
            }
            (Node::Sequence(nodes), Nest::List(items) | Nest::Tuple(items)) => {
                nodes.resize(nodes.len().max(items.len()), Node::Unseen);
                let mut pairs = nodes.iter_mut().zip(items).enumerate();
                pairs.try_for_each(|(i, (node, item))| {
                    within(path, &i.to_string(), |path| node.grow(item, path, paths))
                })
            }
            (Node::Fields(nodes), Nest::Dict(items)) => items.iter().try_for_each(|(key, item)| {
                let node = nodes.entry(key.clone()).or_default();
                within(path, key, |path| node.grow(item, path, paths))
            }),
            (Node::Fields(nodes), Nest::NamedTuple { fields, .. }) => {
                fields.iter().try_for_each(|(key, item)| {
                    let node = nodes.entry(key.clone()).or_default();
                    within(path, key, |path| node.grow(item, path, paths))
                })
            }
            (node, step) => Err(format!("at {path:?}: {}", clash(node, step))),
        }
    }
}

/// Runs `inside` with `part` at the end of `path`.
fn within<T>(path: &mut String, part: &str, inside: impl FnOnce(&mut String) -> T) -> T {
    let length = path.len();
    if length > 0 {
        path.push('/');
    }
    path.push_str(part);
    let result = inside(path);
    path.truncate(length);
    result
}

fn clash(node: &Node, step: &Nest<Tensor>) -> String {
    let before = match node {
        Node::Unseen => "nothing",
        Node::Leaf(_) => "a tensor",
        Node::Sequence(_) => "a list or tuple",
        Node::Fields(_) => "a dict or named tuple",
    };
    let now = match step {
        Nest::Leaf(_) => "a tensor",
        Nest::List(_) | Nest::Tuple(_) => "a list or tuple",
        Nest::Dict(_) | Nest::NamedTuple { .. } => "a dict or named tuple",
        Nest::None => "nothing",
    };
    format!("the step has {now} where earlier steps had {before}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(value: i32) -> Nest<Tensor> {
        Nest::Leaf(Tensor::scalar(value))
    }

    fn dict(fields: &[(&str, Nest<Tensor>)]) -> Nest<Tensor> {
        Nest::Dict(fields.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect())
    }

    fn paths(structure: &Structure) -> Vec<&str> {
        structure.paths().iter().map(|path| &**path).collect()
    }

    #[test]
    fn new_leaves_are_appended_as_new_columns() {
        let first = dict(&[("b", leaf(0)), ("d", Nest::List(vec![leaf(1), leaf(2)]))]);
        let (placed, structure) = Structure::default().place(&first).unwrap();
        assert_eq!(placed.iter().map(|(column, _)| *column).collect::<Vec<_>>(), [0, 1, 2]);
        let structure = structure.unwrap();
        assert_eq!(paths(&structure), ["b", "d/0", "d/1"]);

        let second = dict(&[("a", leaf(3)), ("b", Nest::None), ("d", Nest::List(vec![Nest::None, leaf(4)]))]);
        let (placed, grown) = structure.place(&second).unwrap();
        assert_eq!(placed.iter().map(|(column, _)| *column).collect::<Vec<_>>(), [3, 2]);
        assert_eq!(paths(&grown.unwrap()), ["b", "d/0", "d/1", "a"]);
        assert_eq!(paths(&structure), ["b", "d/0", "d/1"]);
    }

    #[test]
    fn without_steps_there_is_no_structure() {
        assert_eq!(Structure::default().nest(), None);
    }

    #[test]
    fn the_structure_is_known_while_it_matches_the_column_order() {
        let first = dict(&[("b", leaf(0)), ("d", Nest::Tuple(vec![Nest::None, leaf(1)]))]);
        let structure = Structure::default().place(&first).unwrap().1.unwrap();
        let tuple = Nest::List(vec![Nest::None, Nest::Leaf(())]);
        let expected = Nest::dict([("b", Nest::Leaf(())), ("d", tuple)]);
        assert_eq!(structure.nest(), Some(expected));
        let grown = |name| structure.place(&dict(&[(name, leaf(0))])).unwrap().1.unwrap().nest();
        assert!(grown("e").is_some());
        assert_eq!(grown("a"), None);
    }

    #[test]
    fn a_known_step_adds_no_columns() {
        let step = dict(&[("a", leaf(0)), ("b", leaf(0))]);
        let (_, structure) = Structure::default().place(&step).unwrap();
        let (placed, grown) = structure.unwrap().place(&step).map(|(p, g)| (p.len(), g.is_some())).unwrap();
        assert_eq!((placed, grown), (2, false));
    }

    #[test]
    fn a_different_kind_of_container_is_refused() {
        let (_, structure) = Structure::default().place(&dict(&[("a", leaf(0))])).unwrap();
        let structure = structure.unwrap();
        for step in [Nest::List(vec![leaf(0)]), leaf(0), dict(&[("a", Nest::List(vec![leaf(0)]))])] {
            assert_eq!(
                structure.place(&step).unwrap_err().kind(),
                relive_connection::ErrorKind::InvalidArgument
            );
        }
    }
}
