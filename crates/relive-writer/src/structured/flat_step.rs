//! Steps of a structured writer, which all have the same structure and may have gaps.

use std::collections::BTreeSet;
use std::sync::Arc;

use relive_connection::{Error, Result};
use relive_tensor::{Nest, Tensor};
use smallvec::SmallVec;

/// The leaves of one step in flattening order, with `None` for each missing leaf.
#[derive(Debug)]
pub(crate) struct FlatStep<'a>(SmallVec<[Option<&'a Tensor>; 8]>);

impl<'a> FlatStep<'a> {
    /// Iterates over the existing leaves, with their numbers.
    pub(crate) fn leaves(&self) -> impl Iterator<Item = (u32, &'a Tensor)> {
        (0..).zip(&self.0).filter_map(|(source, leaf)| Some((source, (*leaf)?)))
    }

    pub(crate) fn leaf(&self, source: u32) -> Option<&'a Tensor> {
        *self.0.get(usize::try_from(source).ok()?)?
    }
}

/// The structure of all steps, and which of their leaves are stored.
#[derive(Debug)]
pub(crate) struct StepShape {
    nest: Nest<()>,
    paths: Vec<Arc<str>>,
    /// The column of each leaf, for those that are stored.
    columns: Vec<Option<usize>>,
}

impl StepShape {
    /// Creates the structure from `step`. The leaves in `sources` are stored.
    pub(crate) fn new(step: &Nest<Tensor>, sources: impl Iterator<Item = u32>) -> Result<StepShape> {
        // Gaps are also leaves, because the first step may be a partial one.
        let nest = fill_gaps(step);
        let paths: Vec<Arc<str>> =
            nest.flatten_with_paths().into_iter().map(|(path, ())| Arc::from(path.to_string())).collect();
        let mut columns = vec![None; paths.len()];
        for (column, source) in sources.collect::<BTreeSet<u32>>().into_iter().enumerate() {
            let place = usize::try_from(source).ok().and_then(|source| columns.get_mut(source));
            let place = place.ok_or_else(|| {
                Error::invalid(format!(
                    "a pattern refers to column {source}, but the steps have only {}: {paths:?}",
                    paths.len()
                ))
            })?;
            *place = Some(column);
        }
        Ok(StepShape { nest, paths, columns })
    }

    /// The numbers and paths of the stored leaves, in the order of their columns.
    pub(crate) fn stored(&self) -> impl Iterator<Item = (usize, &Arc<str>)> {
        let leaves = self.paths.iter().zip(&self.columns).enumerate();
        leaves.filter(|(_, (_, column))| column.is_some()).map(|(number, (path, _))| (number, path))
    }

    /// Returns the column in which leaf number `source` is stored.
    pub(crate) fn column(&self, source: u32) -> Option<usize> {
        *self.columns.get(usize::try_from(source).ok()?)?
    }

    /// Flattens a step, which must have the same structure as the first one.
    pub(crate) fn flatten<'a>(&self, step: &'a Nest<Tensor>) -> Result<FlatStep<'a>> {
        let mut leaves = SmallVec::new();
        if flatten(&self.nest, step, &mut leaves) {
            return Ok(FlatStep(leaves));
        }
        let (got, wanted) = (fill_gaps(step).len(), self.paths.len());
        let counts = if got == wanted {
            String::new()
        } else {
            format!("it has {got} leaves, but must have {wanted}: ")
        };
        Err(Error::invalid(format!(
            "{counts}the step differs from the first one, which had the columns {:?}; leaves can be None, but \
             containers and keys must be the same",
            self.paths
        )))
    }
}

/// Returns the structure of `step`, in which a gap is also a leaf.
pub(super) fn fill_gaps<T>(step: &Nest<T>) -> Nest<()> {
    match step {
        Nest::Leaf(_) | Nest::None => Nest::Leaf(()),
        Nest::List(items) => Nest::List(items.iter().map(fill_gaps).collect()),
        Nest::Tuple(items) => Nest::Tuple(items.iter().map(fill_gaps).collect()),
        Nest::Dict(items) => {
            Nest::Dict(items.iter().map(|(key, item)| (key.clone(), fill_gaps(item))).collect())
        }
        Nest::NamedTuple { name, fields } => Nest::NamedTuple {
            name: name.clone(),
            fields: fields.iter().map(|(key, item)| (key.clone(), fill_gaps(item))).collect(),
        },
    }
}

/// Appends the leaves of `step` in the order of `shape`. Returns false if the structures do not match.
fn flatten<'a>(
    shape: &Nest<()>,
    step: &'a Nest<Tensor>,
    leaves: &mut SmallVec<[Option<&'a Tensor>; 8]>,
) -> bool {
    match (shape, step) {
        (Nest::Leaf(()), Nest::Leaf(value)) => {
            leaves.push(Some(value));
            true
        }
        (shape, Nest::None) => {
            leaves.extend(std::iter::repeat_n(None, shape.len()));
            true
        }
        (Nest::List(shapes) | Nest::Tuple(shapes), Nest::List(items) | Nest::Tuple(items)) => {
            shapes.len() == items.len()
                && shapes.iter().zip(items).all(|(shape, item)| flatten(shape, item, leaves))
        }
        (Nest::Dict(shapes), Nest::Dict(items)) => {
            shapes.len() == items.len()
                && shapes
                    .iter()
                    .zip(items)
                    .all(|((key, shape), (other, item))| key == other && flatten(shape, item, leaves))
        }
        (Nest::NamedTuple { fields: shapes, .. }, Nest::NamedTuple { fields, .. }) => {
            shapes.len() == fields.len()
                && shapes
                    .iter()
                    .zip(fields)
                    .all(|((key, shape), (other, item))| key == other && flatten(shape, item, leaves))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(value: i32) -> Nest<Tensor> {
        Nest::Leaf(Tensor::scalar(value))
    }

    #[test]
    fn gaps_keep_their_position() {
        let first = Nest::List(vec![leaf(0), Nest::None, Nest::Tuple(vec![leaf(1), leaf(2)])]);
        let shape = StepShape::new(&first, [3, 1, 3].into_iter()).unwrap();
        let stored: Vec<(usize, &str)> = shape.stored().map(|(number, path)| (number, &**path)).collect();
        assert_eq!(stored, [(1, "1"), (3, "2/1")]);
        assert_eq!((shape.column(0), shape.column(1), shape.column(3)), (None, Some(0), Some(1)));
        let step = Nest::List(vec![Nest::None, leaf(5), Nest::None]);
        let flat = shape.flatten(&step).unwrap();
        assert_eq!(flat.leaves().map(|(source, _)| source).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn a_step_of_a_different_shape_is_refused() {
        let first = Nest::Dict([("a".to_owned(), leaf(0)), ("b".to_owned(), leaf(0))].into());
        let shape = StepShape::new(&first, [0].into_iter()).unwrap();
        let other = Nest::Dict([("a".to_owned(), leaf(0)), ("c".to_owned(), leaf(0))].into());
        assert!(shape.flatten(&other).is_err());
        assert!(shape.flatten(&leaf(0)).is_err());
        assert!(StepShape::new(&first, [2].into_iter()).is_err());
    }
}
