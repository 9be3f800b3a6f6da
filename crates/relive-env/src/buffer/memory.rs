//! The leaves of a nest, with several rows each.

use relive_tensor::{Element, Nest};

use super::place::{Place, find};
use super::view::{View, ViewMut};
use crate::error::{EnvError, Mismatch};
use crate::limits::MAX_BUFFER_BYTES;
use crate::spec::{ArraySpec, check_leaf};

/// The alignment of every leaf, which permits reading its elements in place.
const ALIGNMENT: usize = size_of::<u64>();

/// Memory for `rows` observations or actions of one nest: for each leaf, in flattening order, `[rows, …]` contiguous
/// elements.
///
/// ```
/// use relive_env::{ArraySpec, Buffer};
/// use relive_tensor::{DType, Nest};
/// let spec = Nest::dict([("speed", ArraySpec::new("", DType::Float64, [])), ("map", ArraySpec::new("", DType::UInt8, [2]))]);
/// let mut buffer = Buffer::for_nest(&spec, 3)?;
/// buffer.row_mut(1).leaf_mut::<u8>(0)?.copy_from_slice(&[7, 8]);
/// assert_eq!(buffer.leaf::<u8>(0)?, [0, 0, 7, 8, 0, 0], "`map` comes before `speed`");
/// assert_eq!(buffer.row(1).leaf::<f64>(1)?, [0.0]);
/// # Ok::<(), relive_env::EnvError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    places: Vec<Place>,
    rows: usize,
    words: Vec<u64>,
}

impl Buffer {
    /// Creates a buffer of zeros for `rows` values of `nest`.
    ///
    /// # Errors
    /// [`EnvError::Spec`] if a leaf's spec is invalid, or the total exceeds [`MAX_BUFFER_BYTES`].
    pub fn for_nest(nest: &Nest<ArraySpec>, rows: usize) -> Result<Self, EnvError> {
        let mut places = Vec::new();
        let mut end = 0_usize;
        for spec in nest.leaves() {
            spec.validate()?;
            let cell_bytes = spec.num_elements()? * spec.dtype.size_bytes().unwrap_or(0);
            places.push(Place { dtype: spec.dtype, start: end, cell_bytes });
            end = end_of(end, cell_bytes, rows).ok_or_else(|| too_large(&spec.name, rows, spec))?;
        }
        Ok(Self { places, rows, words: vec![0; end / ALIGNMENT] })
    }

    /// Creates a buffer of zeros for `rows` values with this buffer's leaves.
    ///
    /// # Errors
    /// [`EnvError::Spec`] if the total exceeds [`MAX_BUFFER_BYTES`].
    pub fn with_rows(&self, rows: usize) -> Result<Self, EnvError> {
        let mut places = self.places.clone();
        let mut end = 0_usize;
        for place in &mut places {
            place.start = end;
            let bytes = place.cell_bytes;
            end = end_of(end, bytes, rows)
                .ok_or_else(|| too_large("", rows, format_args!("a leaf of {bytes} bytes")))?;
        }
        Ok(Self { places, rows, words: vec![0; end / ALIGNMENT] })
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of bytes in one row of all leaves.
    #[must_use]
    pub fn row_bytes(&self) -> usize {
        self.places.iter().map(|place| place.cell_bytes).sum()
    }

    /// Returns the number of leaves.
    #[must_use]
    pub fn num_leaves(&self) -> usize {
        self.places.len()
    }

    /// Returns all rows of a leaf, contiguous.
    ///
    /// # Errors
    /// [`EnvError::Observation`] if the leaf does not exist or its elements have a different type.
    pub fn leaf<T: Element>(&self, index: usize) -> Result<&[T], EnvError> {
        let place = find::<T>(&self.places, index)?;
        Ok(bytemuck::cast_slice(&self.bytes()[self.all_rows(place)]))
    }

    /// Returns all rows of a leaf, contiguous and mutable.
    ///
    /// # Errors
    /// Same as [`Buffer::leaf`].
    pub fn leaf_mut<T: Element>(&mut self, index: usize) -> Result<&mut [T], EnvError> {
        let range = self.all_rows(find::<T>(&self.places, index)?);
        Ok(bytemuck::cast_slice_mut(&mut self.bytes_mut()[range]))
    }

    /// Returns all rows of a leaf as little-endian bytes, regardless of its type, or `None` if the leaf does not exist.
    #[must_use]
    pub fn leaf_bytes(&self, index: usize) -> Option<&[u8]> {
        let place = *self.places.get(index)?;
        self.bytes().get(self.all_rows(place))
    }

    /// Returns all rows of a leaf as mutable little-endian bytes, or `None` if the leaf does not exist.
    pub fn leaf_bytes_mut(&mut self, index: usize) -> Option<&mut [u8]> {
        let range = self.all_rows(*self.places.get(index)?);
        self.bytes_mut().get_mut(range)
    }

    /// Returns the first row, which is the whole of a one-row buffer.
    ///
    /// # Panics
    /// If there are no rows.
    #[must_use]
    pub fn view(&self) -> View<'_> {
        self.row(0)
    }

    /// Returns the first row, for writing.
    ///
    /// # Panics
    /// If there are no rows.
    pub fn view_mut(&mut self) -> ViewMut<'_> {
        self.row_mut(0)
    }

    /// Returns one row.
    ///
    /// # Panics
    /// If the row does not exist.
    #[must_use]
    pub fn row(&self, row: usize) -> View<'_> {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        View::new(&self.places, bytemuck::cast_slice(&self.words), row)
    }

    /// Returns one row, for writing.
    ///
    /// # Panics
    /// If the row does not exist.
    pub fn row_mut(&mut self, row: usize) -> ViewMut<'_> {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        ViewMut::new(&self.places, bytemuck::cast_slice_mut(&mut self.words), row)
    }

    /// Sets everything to zero.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Copies another buffer, which must have the same nest and number of rows.
    ///
    /// # Errors
    /// [`EnvError::Observation`] if the nests or the numbers of rows differ.
    pub fn copy_from(&mut self, other: &Self) -> Result<(), EnvError> {
        if self.places != other.places || self.rows != other.rows {
            return Err(EnvError::Observation(Mismatch::boxed(
                "",
                format_args!("{} rows of the same leaves", self.rows),
                format_args!("{} rows of {} leaves", other.rows, other.places.len()),
            )));
        }
        self.words.copy_from_slice(&other.words);
        Ok(())
    }

    /// Checks every value of a row against its spec.
    ///
    /// # Errors
    /// [`EnvError::Observation`] with the path of the first leaf that the spec does not allow. It is also returned if the
    /// row does not exist, or the buffer has more leaves than the nest.
    pub fn check_row(&self, row: usize, nest: &Nest<ArraySpec>) -> Result<(), EnvError> {
        self.check_leaf_count(nest)?;
        if row >= self.rows {
            let expected = format_args!("a row below {}", self.rows);
            return Err(EnvError::Observation(Mismatch::boxed("", expected, format_args!("row {row}"))));
        }
        let mut leaves = nest.flatten_with_paths().into_iter().enumerate();
        leaves.try_for_each(|(index, (path, spec))| self.check_leaf_of(row, index, (&path.to_string(), spec)))
    }

    /// Checks every value of every row against its spec.
    ///
    /// # Errors
    /// [`EnvError::Observation`] with the row and the path of the first leaf that the spec does not allow. It is also
    /// returned if the buffer has more leaves than the nest.
    pub fn check_rows(&self, nest: &Nest<ArraySpec>) -> Result<(), EnvError> {
        self.check_leaf_count(nest)?;
        for (index, (path, spec)) in nest.flatten_with_paths().into_iter().enumerate() {
            let path = path.to_string();
            (0..self.rows).try_for_each(|row| {
                self.check_leaf_of(row, index, (&path, spec)).map_err(|error| error.in_row(row))
            })?;
        }
        Ok(())
    }

    /// Refuses leaves that the nest does not have. Missing leaves are reported by their paths.
    fn check_leaf_count(&self, nest: &Nest<ArraySpec>) -> Result<(), EnvError> {
        let (expected, actual) = (nest.len(), self.places.len());
        if actual <= expected {
            return Ok(());
        }
        let expected = format_args!("a number of leaves of {expected}");
        Err(EnvError::Observation(Mismatch::boxed("", expected, actual)))
    }

    fn check_leaf_of(
        &self,
        row: usize,
        index: usize,
        (path, spec): (&str, &ArraySpec),
    ) -> Result<(), EnvError> {
        let view = self.row(row);
        let bytes = view.leaf_bytes(index).unwrap_or_default();
        let expected = spec.num_elements()? * spec.dtype.size_bytes().unwrap_or(0);
        if self.places.get(index).is_none_or(|place| place.dtype != spec.dtype) || bytes.len() != expected {
            let actual = format_args!("{} bytes", bytes.len());
            return Err(EnvError::Observation(Mismatch::boxed(path, spec, actual)));
        }
        check_leaf(path, spec, bytes).map_err(EnvError::Observation)
    }

    pub(super) fn places(&self) -> &[Place] {
        &self.places
    }

    fn all_rows(&self, place: Place) -> std::ops::Range<usize> {
        place.start..place.start + place.cell_bytes * self.rows
    }

    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.words)
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.words)
    }
}

/// Returns the end of a leaf with `rows` rows that starts at `start`, or `None` if it exceeds the limit.
fn end_of(start: usize, cell_bytes: usize, rows: usize) -> Option<usize> {
    let bytes = cell_bytes.checked_mul(rows)?.checked_next_multiple_of(ALIGNMENT)?;
    start.checked_add(bytes).filter(|end| *end <= MAX_BUFFER_BYTES)
}

fn too_large(name: &str, rows: usize, what: impl std::fmt::Display) -> EnvError {
    let expected = format_args!("at most {MAX_BUFFER_BYTES} bytes for all leaves");
    EnvError::Spec(Mismatch::boxed(name, expected, format_args!("{rows} rows of {what}")))
}

#[cfg(test)]
mod tests {
    use relive_tensor::DType;

    use super::*;

    fn nest() -> Nest<ArraySpec> {
        Nest::dict([
            ("a", ArraySpec::new("", DType::UInt8, [3])),
            ("b", ArraySpec::new("", DType::Float32, [2])),
            ("c", ArraySpec::discrete("", 4)),
        ])
    }

    #[test]
    fn rows_do_not_touch_each_other() {
        let mut buffer = Buffer::for_nest(&nest(), 3).unwrap();
        buffer.row_mut(1).leaf_mut::<u8>(0).unwrap().fill(9);
        buffer.row_mut(2).leaf_mut::<f32>(1).unwrap().fill(1.5);
        buffer.row_mut(0).leaf_mut::<i32>(2).unwrap()[0] = 3;
        assert_eq!(buffer.leaf::<u8>(0).unwrap(), [0, 0, 0, 9, 9, 9, 0, 0, 0]);
        assert_eq!(buffer.leaf::<f32>(1).unwrap(), [0.0, 0.0, 0.0, 0.0, 1.5, 1.5]);
        assert_eq!(buffer.leaf::<i32>(2).unwrap(), [3, 0, 0]);
    }

    #[test]
    fn leaves_of_another_dtype_or_index_are_refused() {
        let buffer = Buffer::for_nest(&nest(), 1).unwrap();
        let error = buffer.leaf::<f64>(1).unwrap_err().to_string();
        assert_eq!(error, "observation at `1`: expected a leaf of float64, got elements of float32");
        let error = buffer.view().leaf::<f64>(3).unwrap_err().to_string();
        assert_eq!(error, "observation at `3`: expected a leaf of float64, got no such leaf");
    }

    #[test]
    fn values_are_checked_by_path() {
        let mut buffer = Buffer::for_nest(&nest(), 2).unwrap();
        assert_eq!(buffer.check_row(1, &nest()), Ok(()));
        buffer.leaf_mut::<i32>(2).unwrap()[1] = 4;
        let error = buffer.check_row(1, &nest()).unwrap_err().to_string();
        assert_eq!(error, "observation at `c`: expected a number from 0 to 3, got 4 at element 0");
        assert_eq!(buffer.check_row(0, &nest()), Ok(()));
    }

    #[test]
    fn missing_rows_and_surplus_leaves_are_refused() {
        let buffer = Buffer::for_nest(&nest(), 2).unwrap();
        let error = buffer.check_row(2, &nest()).unwrap_err().to_string();
        assert_eq!(error, "observation expected a row below 2, got row 2");
        let narrower = Nest::dict([("a", ArraySpec::new("", DType::UInt8, [3]))]);
        for found in [buffer.check_row(0, &narrower), buffer.check_rows(&narrower)] {
            assert_eq!(found.unwrap_err().to_string(), "observation expected a number of leaves of 1, got 3");
        }
    }

    #[test]
    fn a_buffer_larger_than_memory_is_refused() {
        let error = Buffer::for_nest(&nest(), usize::MAX / 4).unwrap_err().to_string();
        assert!(error.contains("at most"), "{error}");
    }
}
