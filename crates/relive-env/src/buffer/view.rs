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

/// One row of a [`Buffer`](crate::Buffer), for writing.
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

    /// Returns a row without leaves.
    #[must_use]
    pub fn empty() -> View<'static> {
        View { places: &[], bytes: &[], row: 0 }
    }

    /// Returns the number of leaves.
    #[must_use]
    pub fn num_leaves(&self) -> usize {
        self.places.len()
    }

    /// Returns the type of a leaf's elements, or `None` if the leaf does not exist.
    #[must_use]
    pub fn dtype(&self, index: usize) -> Option<DType> {
        self.places.get(index).map(|place| place.dtype)
    }

    pub(super) fn places(&self) -> &'a [Place] {
        self.places
    }

    /// Returns the elements of a leaf, row-major.
    ///
    /// # Errors
    /// [`EnvError::Observation`] if the leaf does not exist or its elements have a different type.
    #[inline]
    pub fn leaf<T: Element>(&self, index: usize) -> Result<&'a [T], EnvError> {
        let place = find::<T>(self.places, index)?;
        Ok(bytemuck::cast_slice(&self.bytes[range(place, self.row)]))
    }

    /// Returns a leaf as little-endian bytes, regardless of its type, or `None` if the leaf does not exist.
    #[must_use]
    pub fn leaf_bytes(&self, index: usize) -> Option<&'a [u8]> {
        self.bytes.get(range(*self.places.get(index)?, self.row))
    }
}

impl<'a> ViewMut<'a> {
    pub(super) fn new(places: &'a [Place], bytes: &'a mut [u8], row: usize) -> Self {
        Self { places, bytes, row }
    }

    /// Returns the number of leaves.
    #[must_use]
    pub fn num_leaves(&self) -> usize {
        self.places.len()
    }

    pub(super) fn places(&self) -> &'a [Place] {
        self.places
    }

    /// Returns the elements of a leaf, row-major.
    ///
    /// # Errors
    /// [`EnvError::Observation`] if the leaf does not exist or its elements have a different type.
    #[inline]
    pub fn leaf_mut<T: Element>(&mut self, index: usize) -> Result<&mut [T], EnvError> {
        let place = find::<T>(self.places, index)?;
        Ok(bytemuck::cast_slice_mut(&mut self.bytes[range(place, self.row)]))
    }

    /// Returns a leaf as little-endian bytes, regardless of its type, or `None` if the leaf does not exist.
    pub fn leaf_bytes_mut(&mut self, index: usize) -> Option<&mut [u8]> {
        self.bytes.get_mut(range(*self.places.get(index)?, self.row))
    }

    /// Returns the row's current contents.
    #[must_use]
    pub fn as_view(&self) -> View<'_> {
        View { places: self.places, bytes: self.bytes, row: self.row }
    }

    /// Returns another view of the same row, for a call that consumes its view.
    pub fn reborrow(&mut self) -> ViewMut<'_> {
        ViewMut { places: self.places, bytes: self.bytes, row: self.row }
    }
}

#[inline]
fn range(place: Place, row: usize) -> std::ops::Range<usize> {
    let start = place.start + row * place.cell_bytes;
    start..start + place.cell_bytes
}
