//! Actions.

use super::view::View;
use crate::error::{EnvError, Mismatch};
use crate::spec::ArraySpec;

/// An action in the form that is most convenient for the caller.
///
/// Environments with one discrete action accept [`Discrete`](Self::Discrete); environments with one array of float32
/// accept [`Continuous`](Self::Continuous). Any action can be passed as [`Nest`](Self::Nest), with the leaves in the
/// order of the spec.
#[derive(Clone, Copy, Debug)]
pub enum Action<'a> {
    /// A number in `0..n`.
    Discrete(i64),
    /// The elements of one array of float32, row-major.
    Continuous(&'a [f32]),
    /// Any number of leaves.
    Nest(View<'a>),
}

impl<'a> Action<'a> {
    /// Returns the action as a choice in `0..num_values`.
    ///
    /// # Errors
    /// [`EnvError::Action`] if it is not a valid choice.
    #[inline]
    pub fn discrete(self, num_values: u32) -> Result<u32, EnvError> {
        let value = match self {
            Self::Discrete(value) => Some(value),
            Self::Nest(view) => one_integer(view),
            Self::Continuous(_) => None,
        };
        let choice = value.and_then(|value| u32::try_from(value).ok()).filter(|choice| *choice < num_values);
        choice.ok_or_else(|| self.refused(&ArraySpec::discrete("", num_values)))
    }

    /// Returns the action as `count` numbers. This does not check bounds.
    ///
    /// # Errors
    /// [`EnvError::Action`] if it is not an array of `count` float32.
    #[inline]
    pub fn continuous(self, count: usize) -> Result<&'a [f32], EnvError> {
        let values = match self {
            Self::Continuous(values) => Some(values),
            Self::Nest(view) if view.num_leaves() == 1 => view.leaf::<f32>(0).ok(),
            Self::Nest(_) | Self::Discrete(_) => None,
        };
        values.filter(|values| values.len() == count).ok_or_else(|| {
            let expected = format_args!("{count} numbers of float32");
            EnvError::Action(Mismatch::boxed("", expected, self.kind()))
        })
    }

    #[cold]
    fn refused(self, spec: &ArraySpec) -> EnvError {
        EnvError::Action(Mismatch::boxed("", spec, self.kind()))
    }

    fn kind(self) -> String {
        match self {
            Self::Discrete(value) => value.to_string(),
            Self::Continuous(values) => format!("{} numbers of float32", values.len()),
            Self::Nest(view) => match (one_integer(view), view.dtype(0)) {
                (Some(value), _) => value.to_string(),
                (None, Some(dtype)) if view.num_leaves() == 1 => {
                    let bytes = view.leaf_bytes(0).map_or(0, <[u8]>::len);
                    format!("{bytes} bytes of {}", dtype.numpy_name())
                }
                _ => format!("{} leaves", view.num_leaves()),
            },
        }
    }
}

#[inline]
fn one_integer(view: View<'_>) -> Option<i64> {
    if view.num_leaves() != 1 {
        return None;
    }
    let narrow = view.leaf::<i32>(0).ok().map(|values| match values {
        [value] => Some(i64::from(*value)),
        _ => None,
    });
    narrow.unwrap_or_else(|| match view.leaf::<i64>(0) {
        Ok([value]) => Some(*value),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use relive_tensor::{DType, Nest};

    use super::*;
    use crate::Buffer;

    fn buffer(dtype: DType, shape: &[u32]) -> Buffer {
        Buffer::for_nest(&Nest::Leaf(ArraySpec::new("", dtype, shape)), 1).unwrap()
    }

    #[test]
    fn discrete_actions_are_read_from_numbers_and_nests() {
        assert_eq!(Action::Discrete(2).discrete(3), Ok(2));
        for dtype in [DType::Int32, DType::Int64] {
            let mut leaf = buffer(dtype, &[]);
            leaf.leaf_bytes_mut(0).unwrap()[0] = 1;
            assert_eq!(Action::Nest(leaf.view()).discrete(3), Ok(1));
        }
    }

    #[test]
    fn invalid_discrete_actions_are_reported() {
        let error_of = |action: Action<'_>| action.discrete(3).unwrap_err().to_string();
        assert_eq!(error_of(Action::Discrete(3)), "action expected a number from 0 to 2, got 3");
        assert_eq!(error_of(Action::Discrete(-1)), "action expected a number from 0 to 2, got -1");
        assert_eq!(
            error_of(Action::Continuous(&[0.0])),
            "action expected a number from 0 to 2, got 1 numbers of float32"
        );
        let floats = buffer(DType::Float32, &[2]);
        assert_eq!(
            error_of(Action::Nest(floats.view())),
            "action expected a number from 0 to 2, got 8 bytes of float32"
        );
    }

    #[test]
    fn arrays_must_have_their_length() {
        let floats = buffer(DType::Float32, &[2]);
        assert_eq!(Action::Nest(floats.view()).continuous(2), Ok(&[0.0, 0.0][..]));
        let error = Action::Continuous(&[1.0]).continuous(2).unwrap_err().to_string();
        assert_eq!(error, "action expected 2 numbers of float32, got 1 numbers of float32");
        assert!(Action::Discrete(0).continuous(1).is_err());
    }
}
