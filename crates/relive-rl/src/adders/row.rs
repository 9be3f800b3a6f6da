//! Converts an environment's views to a writer's steps.

use bytes::Bytes;
use relive_client::{Nest, Tensor};
use relive_env::{ArraySpec, View};

use crate::{Result, RlError};

/// Converts observations or actions to tensors.
#[derive(Debug, Clone)]
pub(super) struct RowColumns(Nest<ArraySpec>);

impl RowColumns {
    pub(super) fn new(nest: &Nest<ArraySpec>) -> Self {
        Self(nest.clone())
    }

    /// Returns the number of leaves.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Applies `column` to the path of each leaf, in a step that stores the nest under `name`.
    pub(super) fn columns<T>(&self, name: &str, column: impl Fn(&str) -> Result<T>) -> Result<Nest<T>> {
        let mut leaves = Vec::with_capacity(self.0.len());
        for (path, _) in self.0.flatten_with_paths() {
            let path = path.to_string();
            leaves.push(if path.is_empty() { column(name)? } else { column(&format!("{name}/{path}"))? });
        }
        self.0.unflatten(leaves).map_err(|error| RlError::setting("a nest", error, "as its spec says"))
    }

    /// Creates tensors from the bytes of the leaves, which are the next elements of `cells`.
    pub(super) fn restored(&self, cells: &mut impl Iterator<Item = Vec<u8>>) -> Result<Nest<Tensor>> {
        let mut of_leaf = |spec: &ArraySpec| {
            Tensor::new(spec.dtype, spec.shape.clone(), Bytes::from(cells.next().unwrap_or_default()))
        };
        let tensors = self.0.try_map(&mut of_leaf);
        tensors.map_err(|error| RlError::state("an adder", error))
    }

    /// Returns the content of `view`, which has the layout of the nest.
    pub(super) fn tensors(&self, view: View<'_>) -> Result<Nest<Tensor>> {
        let mut index = 0;
        let mut of_leaf = |spec: &ArraySpec| {
            let bytes = Bytes::copy_from_slice(view.leaf_bytes(index).unwrap_or_default());
            index += 1;
            Tensor::new(spec.dtype, spec.shape.clone(), bytes)
        };
        let tensors = self.0.try_map(&mut of_leaf);
        tensors.map_err(|error| RlError::setting("a value of the environment", error, "as its spec says"))
    }
}
