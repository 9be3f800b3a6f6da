//! The spec of one leaf.

use std::fmt;

use relive_tensor::{DType, Shape};

use crate::error::{EnvError, Mismatch};

/// The type, shape and allowed values of one leaf of an observation or action. It corresponds to dm_env's `Array`,
/// `BoundedArray` and `DiscreteArray`.
///
/// ```
/// use relive_env::ArraySpec;
/// use relive_tensor::{DType, Shape};
/// let torque = ArraySpec::new("torque", DType::Float32, [2]).bounded(-2.0, 2.0);
/// assert_eq!(torque.to_string(), "float32 (2,) in -2..=2");
/// assert_eq!(ArraySpec::discrete("action", 3).shape, Shape::scalar());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ArraySpec {
    /// The name of the leaf, which may be empty.
    pub name: String,
    /// The type of the leaf's elements, which must not be strings.
    pub dtype: DType,
    /// The sizes of its dimensions.
    pub shape: Shape,
    /// The permitted values of its elements.
    pub domain: Domain,
}

/// The permitted values of a leaf's elements.
#[derive(Clone, Debug, PartialEq)]
pub enum Domain {
    /// Every value that the type can hold.
    Any,
    /// Each element is between its bounds, inclusive. A list with one bound applies to all elements.
    Bounded {
        /// The minimum values, row-major: one for all elements, or one per element.
        minimum: Vec<f64>,
        /// The maximum values, row-major: one for all elements, or one per element.
        maximum: Vec<f64>,
    },
    /// A number in `0..n`.
    Discrete(u32),
}

impl ArraySpec {
    /// Creates a leaf that permits any value.
    pub fn new(name: impl Into<String>, dtype: DType, shape: impl Into<Shape>) -> Self {
        Self { name: name.into(), dtype, shape: shape.into(), domain: Domain::Any }
    }

    /// Creates a leaf for a choice from `0..num_values`, which is a scalar int32.
    pub fn discrete(name: impl Into<String>, num_values: u32) -> Self {
        let domain = Domain::Discrete(num_values);
        Self { name: name.into(), dtype: DType::Int32, shape: Shape::scalar(), domain }
    }

    /// Sets one pair of bounds for all elements.
    #[must_use]
    pub fn bounded(self, minimum: f64, maximum: f64) -> Self {
        Self { domain: Domain::Bounded { minimum: vec![minimum], maximum: vec![maximum] }, ..self }
    }

    /// Sets bounds for each element, row-major.
    #[must_use]
    pub fn bounded_each(self, minimum: Vec<f64>, maximum: Vec<f64>) -> Self {
        Self { domain: Domain::Bounded { minimum, maximum }, ..self }
    }

    /// Number of elements.
    ///
    /// # Errors
    /// [`EnvError::Spec`] if the number of elements or bytes does not fit into memory, or the elements are strings.
    pub fn num_elements(&self) -> Result<usize, EnvError> {
        let wrong = |expected: &str| EnvError::Spec(Mismatch::boxed(&self.name, expected, self));
        let size = self.dtype.size_bytes().ok_or_else(|| wrong("elements of a fixed size"))?;
        let count = self.shape.num_elements().and_then(|count| usize::try_from(count).ok());
        let fits =
            |count: &usize| count.checked_mul(size).is_some_and(|b| b <= crate::limits::MAX_BUFFER_BYTES);
        count.filter(fits).ok_or_else(|| wrong("a shape that fits into memory"))
    }

    /// Returns the number of choices, or `None` if the leaf is not discrete.
    #[must_use]
    pub fn num_values(&self) -> Option<u32> {
        match self.domain {
            Domain::Discrete(count) => Some(count),
            Domain::Any | Domain::Bounded { .. } => None,
        }
    }

    /// Returns the minimum and the maximum of the element at `index`. They are infinite if the element is unbounded.
    #[must_use]
    pub fn bounds(&self, index: usize) -> (f64, f64) {
        match &self.domain {
            Domain::Any => (f64::NEG_INFINITY, f64::INFINITY),
            Domain::Bounded { minimum, maximum } => {
                let at = |bounds: &[f64], open| {
                    bounds.get(if bounds.len() == 1 { 0 } else { index }).copied().unwrap_or(open)
                };
                (at(minimum, f64::NEG_INFINITY), at(maximum, f64::INFINITY))
            }
            Domain::Discrete(count) => (0.0, f64::from(*count) - 1.0),
        }
    }

    /// Checks that the spec is valid.
    ///
    /// # Errors
    /// [`EnvError::Spec`] if the shape does not fit into memory, the elements are strings, a list has neither one bound
    /// nor one per element, the bounds exclude every value, or the set of choices is empty.
    pub fn validate(&self) -> Result<(), EnvError> {
        let count = self.num_elements()?;
        let wrong = |expected: &str| Err(EnvError::Spec(Mismatch::boxed(&self.name, expected, self)));
        match &self.domain {
            Domain::Any => Ok(()),
            Domain::Bounded { minimum, maximum } => {
                if [minimum, maximum].iter().any(|bounds| bounds.len() != 1 && bounds.len() != count) {
                    return wrong("one bound, or one for each element");
                }
                let ordered = (0..count).map(|index| self.bounds(index)).all(|(low, high)| low <= high);
                if ordered { Ok(()) } else { wrong("minimum <= maximum") }
            }
            Domain::Discrete(0) => wrong("at least one choice"),
            Domain::Discrete(_) if !matches!(self.dtype, DType::Int32 | DType::Int64) || count != 1 => {
                wrong("one int32 or int64")
            }
            Domain::Discrete(_) => Ok(()),
        }
    }
}

impl fmt::Display for ArraySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Domain::Discrete(count) = self.domain {
            return match count.checked_sub(1) {
                Some(last) => write!(f, "a number from 0 to {last}"),
                None => f.write_str("a number without choices"),
            };
        }
        write!(f, "{} {}", self.dtype.numpy_name(), self.shape.display_numpy())?;
        match &self.domain {
            Domain::Bounded { minimum, maximum } => match (minimum.as_slice(), maximum.as_slice()) {
                ([low], [high]) => write!(f, " in {low}..={high}"),
                _ => f.write_str(" with bounds for each element"),
            },
            Domain::Any | Domain::Discrete(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_array_specs_are_refused() {
        let float = |dims: &[u32]| ArraySpec::new("x", DType::Float32, Shape::from(dims));
        let wrong = [
            ArraySpec::discrete("x", 0),
            ArraySpec { dtype: DType::Float32, ..ArraySpec::discrete("x", 2) },
            float(&[2]).bounded(1.0, 0.0),
            float(&[2]).bounded_each(vec![0.0; 3], vec![1.0; 2]),
            float(&[1 << 20, 1 << 20]),
            ArraySpec::new("x", DType::String, []),
        ];
        for spec in wrong {
            let error = spec.validate().unwrap_err().to_string();
            assert!(error.starts_with("spec at `x`: expected "), "{error}");
        }
        assert_eq!(float(&[2]).bounded_each(vec![0.0, 1.0], vec![1.0]).validate(), Ok(()));
        assert_eq!(float(&[0]).validate(), Ok(()));
    }

    #[test]
    fn bounds_are_returned_per_element() {
        let spec = ArraySpec::new("", DType::Float32, [2]).bounded_each(vec![-1.0], vec![1.0, 2.0]);
        assert_eq!(spec.bounds(1), (-1.0, 2.0));
        assert_eq!(ArraySpec::discrete("", 4).bounds(0), (0.0, 3.0));
    }
}
