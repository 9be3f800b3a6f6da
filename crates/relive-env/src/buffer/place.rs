//! The positions of leaves in a buffer's memory.

use relive_tensor::{DType, Element};

use crate::error::{EnvError, Mismatch};

/// The place of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) dtype: DType,
    /// The offset of its first row, in bytes.
    pub(super) start: usize,
    /// The number of bytes of one row.
    pub(super) cell_bytes: usize,
}

#[inline]
pub(super) fn find<T: Element>(places: &[Place], index: usize) -> Result<Place, EnvError> {
    match places.get(index) {
        Some(place) if place.dtype == T::DTYPE => Ok(*place),
        place => Err(other_leaf(place.copied(), index, T::DTYPE)),
    }
}

#[cold]
fn other_leaf(place: Option<Place>, index: usize, wanted: DType) -> EnvError {
    let elements = |place: Place| format!("elements of {}", place.dtype.numpy_name());
    let actual = place.map_or_else(|| "no such leaf".to_owned(), elements);
    EnvError::Observation(Mismatch::boxed(index, format_args!("a leaf of {}", wanted.numpy_name()), actual))
}
