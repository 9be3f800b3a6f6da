//! Specs of tensors and signatures of tables.

use std::fmt;

use crate::dtype::DType;
use crate::nest::Nest;
use crate::shape::{NumpyShape, Shape};
use crate::tensor::Tensor;

/// The type and shape of a column's tensors. Variable sizes and an unknown rank are `None`.
///
/// ```
/// use relive_tensor::{DType, Shape, TensorSpec};
/// let spec = TensorSpec::new("obs", DType::Float32, Some(vec![None, Some(3)]));
/// assert_eq!(spec.display_shape().to_string(), "[?,3]");
/// assert!(spec.accepts(DType::Float32, &Shape::from([7, 3])));
/// assert!(!spec.accepts(DType::Float64, &Shape::from([7, 3])));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// The name of the column, which may be empty.
    pub name: String,
    /// The sizes of the dimensions. `None` means an unknown rank, and a `None` entry means an unknown size.
    pub shape: Option<Vec<Option<u32>>>,
    /// The type of the elements.
    pub dtype: DType,
    /// The minimum and maximum, each a scalar or one value per element. They are stored, not enforced.
    pub bounds: Option<(Tensor, Tensor)>,
}

/// The structure of an item's data with a spec for every column.
pub type Signature = Nest<TensorSpec>;

impl TensorSpec {
    /// Creates a spec without bounds.
    pub fn new(name: impl Into<String>, dtype: DType, shape: Option<Vec<Option<u32>>>) -> Self {
        Self { name: name.into(), shape, dtype, bounds: None }
    }

    /// Returns whether a tensor with the given type and shape matches the spec.
    #[must_use]
    pub fn accepts(&self, dtype: DType, shape: &Shape) -> bool {
        dtype == self.dtype && self.accepts_shape(shape)
    }

    /// Displays the shape as dm-reverb does: `[?,3]`, or `<unknown>` for an unknown rank.
    pub fn display_shape(&self) -> impl fmt::Display + '_ {
        DisplayShape(self.shape.as_deref())
    }

    /// Displays the type and shape as numpy does: `float32 (None, 4)`, or `float32 of any shape`.
    pub fn display_numpy(&self) -> impl fmt::Display + '_ {
        fmt::from_fn(|f| {
            f.write_str(self.dtype.numpy_name())?;
            match &self.shape {
                Some(sizes) => write!(f, " {}", NumpyShape(sizes.iter().map(|size| size.as_ref()))),
                None => f.write_str(" of any shape"),
            }
        })
    }

    fn accepts_shape(&self, shape: &Shape) -> bool {
        let Some(sizes) = &self.shape else { return true };
        let fits = |(size, dim): (&Option<u32>, &u32)| size.is_none_or(|size| size == *dim);
        sizes.len() == shape.rank() && sizes.iter().zip(shape.dims()).all(fits)
    }
}

struct DisplayShape<'a>(Option<&'a [Option<u32>]>);

impl fmt::Display for DisplayShape<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(sizes) = self.0 else { return f.write_str("<unknown>") };
        f.write_str("[")?;
        for (axis, size) in sizes.iter().enumerate() {
            f.write_str(if axis == 0 { "" } else { "," })?;
            match size {
                Some(size) => write!(f, "{size}")?,
                None => f.write_str("?")?,
            }
        }
        f.write_str("]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_must_agree_where_they_are_known() {
        let spec = |shape| TensorSpec::new("", DType::Int8, shape);
        let accepts = |shape, dims: &[u32]| spec(shape).accepts(DType::Int8, &Shape::from(dims));
        assert!(accepts(None, &[]) && accepts(None, &[1, 2]));
        assert!(accepts(Some(vec![]), &[]) && !accepts(Some(vec![]), &[1]));
        assert!(accepts(Some(vec![None, Some(2)]), &[0, 2]));
        assert!(!accepts(Some(vec![None, Some(2)]), &[2, 0]));
        assert!(!accepts(Some(vec![None]), &[1, 1]));
    }

    #[test]
    fn unknown_shapes_and_dimensions_are_shown() {
        let shown = |shape| TensorSpec::new("", DType::Int8, shape).display_shape().to_string();
        assert_eq!(shown(None), "<unknown>");
        assert_eq!(shown(Some(vec![])), "[]");
        assert_eq!(shown(Some(vec![None, Some(84), None])), "[?,84,?]");
    }
}
