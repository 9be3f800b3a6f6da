//! Shapes of tensors.

use std::fmt;

use smallvec::SmallVec;

use crate::limits::MAX_RANK;

/// The sizes of a tensor's dimensions, outermost first. A scalar has none.
///
/// Up to four dimensions need no heap memory.
///
/// ```
/// use relive_tensor::Shape;
/// let shape = Shape::from([2, 3]);
/// assert_eq!(shape.num_elements(), Some(6));
/// assert_eq!(shape.to_string(), "[2,3]");
/// assert_eq!(Shape::scalar().num_elements(), Some(1));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape(SmallVec<[u32; 4]>);

/// The reason why a list of sizes is not a [`Shape`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// A size is negative or does not fit into 32 bits.
    #[error("dimension {axis} has size {size}, but sizes must be in 0..={}", u32::MAX)]
    Size {
        /// The position of the dimension; 0 is the outermost.
        axis: usize,
        /// The size that was given.
        size: i64,
    },
    /// More dimensions than [`MAX_RANK`].
    #[error("shape has {rank} or more dimensions; the limit is {MAX_RANK}")]
    Rank {
        /// A lower bound on the number of dimensions.
        rank: usize,
    },
}

impl Shape {
    /// Returns the shape of a scalar, `[]`.
    #[must_use]
    pub fn scalar() -> Self {
        Self(SmallVec::new())
    }

    /// Creates a shape from signed sizes, which protocols use.
    ///
    /// # Errors
    /// [`ShapeError`] if a size is outside the range of `u32`, or there are more than [`MAX_RANK`] sizes.
    pub fn from_signed(sizes: impl IntoIterator<Item = i64>) -> Result<Self, ShapeError> {
        let mut dims = SmallVec::new();
        for (axis, size) in sizes.into_iter().enumerate() {
            if axis >= MAX_RANK {
                return Err(ShapeError::Rank { rank: axis + 1 });
            }
            dims.push(u32::try_from(size).map_err(|_| ShapeError::Size { axis, size })?);
        }
        Ok(Self(dims))
    }

    /// Returns the sizes of the dimensions, outermost first.
    #[must_use]
    pub fn dims(&self) -> &[u32] {
        &self.0
    }

    /// Returns whether the shape has the given sizes.
    #[must_use]
    pub fn is(&self, dims: &[u32]) -> bool {
        are_same(self.dims(), dims)
    }

    /// Returns the number of dimensions.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// Returns the number of elements, or `None` if this number or the product of the nonzero sizes does not fit into a
    /// signed 64-bit number.
    #[must_use]
    pub fn num_elements(&self) -> Option<u64> {
        num_elements(&self.0)
    }

    /// Returns the size of the leading dimension, or `None` for a scalar.
    #[must_use]
    pub fn rows(&self) -> Option<u32> {
        self.0.first().copied()
    }

    /// Returns the sizes without the leading dimension, which are the shape of one row. A scalar has none.
    #[must_use]
    pub fn cell_dims(&self) -> &[u32] {
        self.0.get(1..).unwrap_or_default()
    }

    /// Creates the shape of `rows` rows of shape `cell`: `[rows, *cell]`.
    #[must_use]
    pub fn batched(rows: u32, cell: &[u32]) -> Self {
        let mut dims = SmallVec::with_capacity(cell.len() + 1);
        dims.push(rows);
        dims.extend_from_slice(cell);
        Self(dims)
    }
}

/// Returns whether two lists of sizes are equal. The lists are short, so an inline comparison is faster than a call. It
/// also avoids a masked vector load from the dangling pointer of an empty list, which takes some processors 100 ns.
pub(crate) fn are_same(some: &[u32], others: &[u32]) -> bool {
    some.len() == others.len() && some.iter().zip(others).all(|(some, other)| some == other)
}

/// Returns the product of `dims`, or `None` if it does not fit into a signed 64-bit number.
///
/// A zero makes the product zero, but the product of the other sizes must also fit: readers that multiply from left to
/// right, such as TensorFlow, must not overflow before they reach the zero.
pub(crate) fn num_elements(dims: &[u32]) -> Option<u64> {
    let nonzero = dims.iter().filter(|dim| **dim != 0);
    let product = nonzero.map(|dim| i64::from(*dim)).try_fold(1_i64, i64::checked_mul)?;
    if dims.contains(&0) { Some(0) } else { u64::try_from(product).ok() }
}

impl Shape {
    /// Displays the shape as numpy does: `()`, `(4,)`, `(2, 4)`.
    pub fn display_numpy(&self) -> impl fmt::Display + '_ {
        NumpyShape(self.0.iter().map(Some))
    }
}

/// Sizes displayed as in numpy, with `None` for unknown sizes.
pub(crate) struct NumpyShape<I>(pub(crate) I);

impl<D: fmt::Display, I: Iterator<Item = Option<D>> + Clone> fmt::Display for NumpyShape<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        let mut axes = 0;
        for (axis, size) in self.0.clone().enumerate() {
            f.write_str(if axis == 0 { "" } else { ", " })?;
            match size {
                Some(size) => write!(f, "{size}")?,
                None => f.write_str("None")?,
            }
            axes += 1;
        }
        f.write_str(if axes == 1 { ",)" } else { ")" })
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (axis, dim) in self.0.iter().enumerate() {
            let comma = if axis == 0 { "" } else { "," };
            write!(f, "{comma}{dim}")?;
        }
        f.write_str("]")
    }
}

impl FromIterator<u32> for Shape {
    fn from_iter<I: IntoIterator<Item = u32>>(dims: I) -> Self {
        Self(dims.into_iter().collect())
    }
}

impl From<&[u32]> for Shape {
    fn from(dims: &[u32]) -> Self {
        Self(SmallVec::from_slice(dims))
    }
}

impl<const N: usize> From<[u32; N]> for Shape {
    fn from(dims: [u32; N]) -> Self {
        Self(SmallVec::from_slice(&dims))
    }
}

impl From<&Self> for Shape {
    fn from(shape: &Self) -> Self {
        shape.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zero_dimension_does_not_hide_an_overflow() {
        assert_eq!(Shape::from([u32::MAX, u32::MAX, u32::MAX]).num_elements(), None);
        assert_eq!(Shape::from([u32::MAX, u32::MAX, u32::MAX, 0]).num_elements(), None);
        assert_eq!(Shape::from([0, u32::MAX, 5]).num_elements(), Some(0));
    }

    #[test]
    fn signed_sizes_are_checked() {
        assert_eq!(Shape::from_signed([2, 0]), Ok(Shape::from([2, 0])));
        assert_eq!(Shape::from_signed([2, -1]), Err(ShapeError::Size { axis: 1, size: -1 }));
        let wide = i64::from(u32::MAX) + 1;
        assert_eq!(Shape::from_signed([wide]), Err(ShapeError::Size { axis: 0, size: wide }));
        assert!(Shape::from_signed([1; MAX_RANK]).is_ok());
        assert_eq!(Shape::from_signed([1; MAX_RANK + 1]), Err(ShapeError::Rank { rank: MAX_RANK + 1 }));
    }

    #[test]
    fn display_has_no_spaces() {
        assert_eq!(Shape::scalar().to_string(), "[]");
        assert_eq!(Shape::batched(7, &[84, 84, 1]).to_string(), "[7,84,84,1]");
    }

    #[test]
    fn four_dimensions_are_inline() {
        assert_eq!(size_of::<Shape>(), 24);
        assert!(!Shape::from([1, 2, 3, 4]).0.spilled());
    }
}
