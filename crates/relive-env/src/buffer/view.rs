//! One row of a buffer.

use relive_tensor::{DType, Element};

use super::place::{Place, find};
use crate::error::EnvError;

/// One row of a [`Buffer`](crate::Buffer): the leaves of one observation or action.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    places: &'a [Place],
    bytes: &'a [u8],
    row: usize,
}

/// One row of a [`Buffer`](crate::Buffer), to be written.
#[derive(Debug)]
pub struct ViewMut<'a> {
    places: &'a [Place],
    bytes: &'a mut [u8],
    row: usize,
}

impl<'a> View<'a> {
    pub(super) fn new(places: &'a [Place], bytes: &'a [u8], row: usize) -> Self {
        Self { places, bytes, row }
    }

    /// A row without leaves.
    #[must_use]
    pub fn empty() -> View<'static> {
        View { places: &[], bytes: &[], row: 0 }
    }

    /// How many leaves there are.
    #[must_use]
    pub fn num_leaves(&self) -> usize {
        self.places.len()
    }

    /// Type of a leaf's elements, `None` if there is no such leaf.
    #[must_use]
    pub fn dtype(&self, index: usize) -> Option<DType> {
        self.places.get(index).map(|place| place.dtype)
    }

    pub(super) fn places(&self) -> &'a [Place] {
        self.places
    }

    /// The elements of a leaf, row-major.
    ///
    /// # Errors
    /// [`EnvError::Observation`] if there is no such leaf or its elements are of another type.
    #[inline]
    pub fn leaf<T: Element>(&self, index: usize) -> Result<&'a [T], EnvError> {
        let place = find::<T>(self.places, index)?;
        Ok(bytemuck::cast_slice(&self.bytes[range(place, self.row)]))
    }

    /// A leaf as little-endian bytes, whatever its type; `None` if there is no such leaf.
    #[must_use]
    pub fn leaf_bytes(&self, index: usize) -> Option<&'a [u8]> {
        self.bytes.get(range(*self.places.get(index)?, self.row))
    }
}

impl<'a> ViewMut<'a> {
    pub(super) fn new(places: &'a [Place], bytes: &'a mut [u8], row: usize) -> Self {
        Self { places, bytes, row }
    }

    /// How many leaves there are.
    #[must_use]
    pub fn num_leaves(&self) -> usize {
        self.places.len()
    }

    pub(super) fn places(&self) -> &'a [Place] {
        self.places
    }

    /// The elements of a leaf, row-major.
    ///
    /// # Errors
    /// [`EnvError::Observation`] if there is no such leaf or its elements are of another type.
    #[inline]
    pub fn leaf_mut<T: Element>(&mut self, index: usize) -> Result<&mut [T], EnvError> {
        let place = find::<T>(self.places, index)?;
        Ok(bytemuck::cast_slice_mut(&mut self.bytes[range(place, self.row)]))
    }

    /// A leaf as little-endian bytes, whatever its type; `None` if there is no such leaf.
    pub fn leaf_bytes_mut(&mut self, index: usize) -> Option<&mut [u8]> {
        self.bytes.get_mut(range(*self.places.get(index)?, self.row))
    }

    /// What is written so far.
    #[must_use]
    pub fn as_view(&self) -> View<'_> {
        View { places: self.places, bytes: self.bytes, row: self.row }
    }

    /// The same row for a call that takes a view for itself.
    pub fn reborrow(&mut self) -> ViewMut<'_> {
        ViewMut { places: self.places, bytes: self.bytes, row: self.row }
    }
}

#[inline]
fn range(place: Place, row: usize) -> std::ops::Range<usize> {
    let start = place.start + row * place.cell_bytes;
    start..start + place.cell_bytes
}
