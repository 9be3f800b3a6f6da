use std::ops::Range;

use super::init::Init;
use crate::limits;

/// The leaves of a set of parameters in memory order, each with its name, shape and offset.
///
/// Layers add their leaves when they are created; after that, a layout does not change, and all its
/// [`Params`](crate::Params) share it.
///
/// ```
/// use relive_nn::{Init, Key, Layout};
///
/// let mut layout = Layout::new();
/// layout.add("head/w", &[4, 2], Init::PyTorch { fan_in: 4 });
/// layout.add("head/b", &[2], Init::Constant(0.0));
/// let params = layout.init(Key::from_seed(1));
/// assert_eq!(params.values().len(), 10);
/// assert_eq!(params.leaf("head/b"), Some(&[0.0, 0.0][..]));
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Layout {
    leaves: Vec<Leaf>,
    len: usize,
}

/// One named array of parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Leaf {
    name: String,
    shape: Vec<usize>,
    offset: usize,
    pub(super) init: Init,
}

impl Leaf {
    /// Returns the name; `/` separates its parts.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the dimensions, row-major.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the range of the leaf's numbers among all numbers.
    pub fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.shape.iter().product::<usize>()
    }
}

impl Layout {
    /// Creates a layout without leaves.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a leaf after the existing leaves. Returns the range of its numbers.
    ///
    /// # Panics
    /// If the name already exists, or a limit of [`limits`] is exceeded.
    pub fn add(&mut self, name: &str, shape: &[usize], init: Init) -> Range<usize> {
        assert!(self.leaves.iter().all(|leaf| leaf.name != name), "two leaves have the name {name}");
        assert!(self.leaves.len() < limits::MAX_LEAVES, "more than {} leaves", limits::MAX_LEAVES);
        let len = shape.iter().try_fold(1_usize, |len, dimension| len.checked_mul(*dimension));
        let end = len.and_then(|len| self.len.checked_add(len));
        assert!(
            end.is_some_and(|end| end <= limits::MAX_PARAMETERS),
            "more than {} parameters",
            limits::MAX_PARAMETERS
        );
        let leaf = Leaf { name: name.to_owned(), shape: shape.to_vec(), offset: self.len, init };
        let range = leaf.range();
        self.len = range.end;
        self.leaves.push(leaf);
        range
    }

    /// Returns the number of parameters of all leaves.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no numbers.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns all leaves in order.
    pub fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "parameters")]
    fn a_shape_whose_product_overflows_is_refused() {
        Layout::new().add("w", &[1 << (usize::BITS / 2), 1 << (usize::BITS / 2)], Init::Constant(0.0));
    }
}
