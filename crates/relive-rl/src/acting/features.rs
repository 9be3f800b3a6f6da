//! Converts observations to rows of numbers.

use bytemuck::pod_read_unaligned;
use relive_client::SampleBatch;
use relive_env::{ArraySpec, Buffer, Domain, View};
use relive_tensor::{DType, Nest};

use crate::{Result, RlError};

/// The largest number of values of a discrete number that becomes one feature per value.
const MAX_ONE_HOT: u32 = 4_096;

/// The smallest height and width of an array of bytes that is treated as an image.
const MIN_IMAGE_SIDE: u32 = 36;

/// Flattens arrays: all elements of all leaves, in order, converted to float32.
#[derive(Debug, Clone)]
pub struct Features {
    leaves: Vec<FeatureLeaf>,
    width: usize,
}

#[derive(Debug, Clone, Copy)]
struct FeatureLeaf {
    dtype: DType,
    element_bytes: usize,
    elements: usize,
    /// The number of features of each element: 1 for the number itself, otherwise one for each of its values.
    values: usize,
    /// The factor by which numbers are multiplied.
    scale: f32,
}

impl Features {
    /// Creates a flattener for the observations of an environment. A number in `0..n` becomes `n` features, of which
    /// one is 1 and the others are 0 (one-hot), if `n` is at most 4,096. A network would otherwise have to distinguish
    /// states by the size of one number. The bytes of images, which are arrays with at least two dimensions of 36 or
    /// more, are divided by 255.
    ///
    /// # Errors
    /// A leaf is not numeric or has no fixed size.
    pub fn of_observations(observations: &Nest<ArraySpec>) -> Result<Features> {
        Features::with(observations, |spec| match spec.domain {
            Domain::Discrete(values @ 1..=MAX_ONE_HOT) => (values as usize, 1.0),
            _ if is_image(spec) => (1, 1.0 / 255.0),
            _ => (1, 1.0),
        })
    }

    /// Creates a flattener for arrays with the given nest.
    ///
    /// # Errors
    /// A leaf is not numeric or has no fixed size.
    pub fn of(arrays: &Nest<ArraySpec>) -> Result<Features> {
        Features::with(arrays, |_| (1, 1.0))
    }

    fn with(arrays: &Nest<ArraySpec>, form: impl Fn(&ArraySpec) -> (usize, f32)) -> Result<Features> {
        let mut leaves = Vec::new();
        for (path, spec) in arrays.flatten_with_paths() {
            let dtype = spec.dtype;
            let element_bytes = dtype.size_bytes().filter(|_| is_number(dtype)).ok_or_else(|| {
                let path = path.to_string();
                let place = if path.is_empty() { String::new() } else { format!(" at `{path}`") };
                let got = format!("one of {}{place}", dtype.numpy_name());
                RlError::Unsuited { expected: "observations of real numbers with up to 64 bits", got }
            })?;
            let (values, scale) = form(spec);
            leaves.push(FeatureLeaf { dtype, element_bytes, elements: spec.num_elements()?, values, scale });
        }
        let width = leaves.iter().try_fold(0_usize, |sum, leaf| sum.checked_add(leaf.width()?));
        let width = width.ok_or_else(|| RlError::setting("observations", "too many to count", "smaller"))?;
        Ok(Features { leaves, width })
    }

    /// Returns the number of values in an observation.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Writes the leaves of all items of a batch to `out`, which has one row per item. The first leaf is
    /// column `first` of the batch. `bytes` is scratch memory.
    pub(crate) fn gather(
        &self,
        batch: &SampleBatch,
        first: usize,
        bytes: &mut Vec<u8>,
        out: &mut [f32],
    ) -> Result<()> {
        for (index, leaf_bytes) in self.leaf_bytes().enumerate() {
            bytes.resize(batch.len() * leaf_bytes, 0);
            batch.gather_into(first + index, bytes)?;
            self.write_column(index, bytes, out);
        }
        Ok(())
    }

    /// Returns the size of an observation in bytes if the observation is a single leaf of bytes.
    pub(crate) fn one_of_bytes(&self) -> Option<usize> {
        match self.leaves.as_slice() {
            [leaf] if leaf.dtype == DType::UInt8 && leaf.values == 1 => Some(leaf.elements),
            _ => None,
        }
    }

    /// Returns the size of each leaf in one observation, in bytes.
    pub(crate) fn leaf_bytes(&self) -> impl Iterator<Item = usize> {
        self.leaves.iter().map(|leaf| leaf.elements * leaf.element_bytes)
    }

    /// Writes one observation to `out`, a row of [`width`](Self::width) numbers.
    pub fn write(&self, observation: View<'_>, out: &mut [f32]) {
        let mut rest = out;
        for (index, leaf) in self.leaves.iter().enumerate() {
            let (row, others) = rest.split_at_mut(leaf.elements * leaf.values);
            leaf.write(observation.leaf_bytes(index).unwrap_or_default(), row);
            rest = others;
        }
    }

    /// Writes many observations to `out`, which is resized to one row of [`width`](Self::width) numbers per
    /// observation.
    pub fn write_rows(&self, observations: &Buffer, out: &mut Vec<f32>) {
        out.resize(observations.rows() * self.width, 0.0);
        for index in 0..self.leaves.len() {
            self.write_column(index, observations.leaf_bytes(index).unwrap_or_default(), out);
        }
    }

    /// Writes the elements of leaf number `index` of many observations, which are contiguous in `bytes`, to the rows of
    /// `out`.
    fn write_column(&self, index: usize, bytes: &[u8], out: &mut [f32]) {
        match self.leaves.as_slice() {
            [leaf] => leaf.write(bytes, out),
            _ => self.write_column_to(index, bytes, out, |row| row),
        }
    }

    /// Like [`write_column`](Self::write_column), but writes to the rows that `place` selects.
    pub(crate) fn write_column_to(
        &self,
        index: usize,
        bytes: &[u8],
        out: &mut [f32],
        place: impl Fn(usize) -> usize,
    ) {
        let Some(leaf) = self.leaves.get(index) else { return };
        let before: usize = self.leaves.iter().take(index).map(|leaf| leaf.elements * leaf.values).sum();
        let cells = bytes.chunks_exact((leaf.elements * leaf.element_bytes).max(1));
        for (row, cell) in cells.enumerate() {
            let start = place(row) * self.width + before;
            let to = out.get_mut(start..start + leaf.elements * leaf.values).unwrap_or_default();
            leaf.write(cell, to);
        }
    }
}

impl FeatureLeaf {
    fn width(&self) -> Option<usize> {
        self.elements.checked_mul(self.values)
    }

    /// Writes the features of elements to `out`.
    fn write(&self, bytes: &[u8], out: &mut [f32]) {
        if self.values == 1 {
            convert(self.dtype, self.element_bytes, bytes, out);
            if self.scale != 1.0 {
                out.iter_mut().for_each(|number| *number *= self.scale);
            }
            return;
        }
        out.fill(0.0);
        for (features, bytes) in out.chunks_exact_mut(self.values).zip(bytes.chunks_exact(self.element_bytes))
        {
            let mut value = [0.0];
            convert(self.dtype, self.element_bytes, bytes, &mut value);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "whole numbers below 4,096"
            )]
            if let Some(feature) = features.get_mut(value[0] as usize) {
                *feature = 1.0;
            }
        }
    }
}

/// Returns whether an array of bytes is an image, whose numbers go from 0 to 255: many grids are also arrays of bytes, whose
/// numbers mean kinds.
pub fn is_image(spec: &ArraySpec) -> bool {
    let long = spec.shape.dims().iter().filter(|dim| **dim >= MIN_IMAGE_SIDE).count();
    long >= 2 && has_all_bytes(spec)
}

/// Returns whether an array may be an image, `[height, width, channels]`, that is too small for [`is_image`]. Policy
/// files do not say how bytes are read, so such arrays stay as they are.
pub fn looks_like_small_image(spec: &ArraySpec) -> bool {
    matches!(spec.shape.dims(), [_, _, 1 | 3 | 4]) && has_all_bytes(spec) && !is_image(spec)
}

/// Returns whether an array has bytes from 0 to 255.
fn has_all_bytes(spec: &ArraySpec) -> bool {
    let is_full = match &spec.domain {
        Domain::Any => true,
        Domain::Bounded { .. } => {
            spec.num_elements().is_ok_and(|count| (0..count).all(|index| spec.bounds(index) == (0.0, 255.0)))
        }
        Domain::Discrete(_) => false,
    };
    spec.dtype == DType::UInt8 && is_full
}

fn is_number(dtype: DType) -> bool {
    use DType as D;
    matches!(
        dtype,
        D::Float32
            | D::Float64
            | D::Int8
            | D::Int16
            | D::Int32
            | D::Int64
            | D::UInt8
            | D::UInt16
            | D::UInt32
            | D::UInt64
            | D::Bool
    )
}

#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "networks take float32")]
fn convert(dtype: DType, element_bytes: usize, bytes: &[u8], out: &mut [f32]) {
    let elements = out.iter_mut().zip(bytes.chunks_exact(element_bytes));
    macro_rules! each {
        ($type:ty, $number:expr) => {
            elements.for_each(|(out, bytes)| *out = $number(pod_read_unaligned::<$type>(bytes)))
        };
    }
    match dtype {
        DType::Float64 => each!(f64, |value| value as f32),
        DType::Int8 => each!(i8, f32::from),
        DType::Int16 => each!(i16, f32::from),
        DType::Int32 => each!(i32, |value| value as f32),
        DType::Int64 => each!(i64, |value| value as f32),
        DType::UInt8 | DType::Bool => each!(u8, f32::from),
        DType::UInt16 => each!(u16, f32::from),
        DType::UInt32 => each!(u32, |value| value as f32),
        DType::UInt64 => each!(u64, |value| value as f32),
        _ => each!(f32, |value| value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_scaled_and_small_grids_are_not() {
        let features = |spec: ArraySpec| {
            let (spec, mut row) = (Nest::Leaf(spec), Vec::new());
            let mut seen = Buffer::for_nest(&spec, 1).unwrap();
            seen.leaf_bytes_mut(0).unwrap().fill(255);
            Features::of_observations(&spec).unwrap().write_rows(&seen, &mut row);
            row[0]
        };
        let bytes = |dims: &[u32]| ArraySpec::new("", DType::UInt8, dims);
        assert_eq!(features(bytes(&[96, 96, 3])), 1.0);
        assert_eq!(features(bytes(&[4, 84, 84]).bounded(0.0, 255.0)), 1.0);
        assert_eq!(features(bytes(&[96, 96]).bounded(0.0, 254.0)), 255.0);
        assert_eq!(features(bytes(&[7, 7, 3])), 255.0);
        assert_eq!(features(bytes(&[512])), 255.0);
        let is_small = |spec: ArraySpec| looks_like_small_image(&spec);
        assert!(is_small(bytes(&[7, 7, 3])) && is_small(bytes(&[7, 7, 3]).bounded(0.0, 255.0)));
        let others =
            [bytes(&[7, 7, 3]).bounded(0.0, 10.0), bytes(&[96, 96, 3]), bytes(&[7, 7]), bytes(&[4, 7, 7])];
        assert!(!others.map(is_small).contains(&true));
    }

    #[test]
    fn discrete_observations_become_one_feature_per_value() {
        let of = |values| ("place", ArraySpec::discrete("", values));
        let speed = ("speed", ArraySpec::new("", DType::Float32, [2]));
        let spec = Nest::dict([of(3), speed].map(|(name, spec)| (name, Nest::Leaf(spec))));
        let mut seen = Buffer::for_nest(&spec, 2).unwrap();
        seen.leaf_mut::<i32>(0).unwrap().copy_from_slice(&[2, 0]);
        seen.leaf_mut::<f32>(1).unwrap().copy_from_slice(&[0.5, 1.5, -0.5, 2.5]);
        let features = Features::of_observations(&spec).unwrap();
        let mut rows = Vec::new();
        features.write_rows(&seen, &mut rows);
        assert_eq!(
            (features.width(), &rows[..5], &rows[5..]),
            (5, &[0., 0., 1., 0.5, 1.5][..], &[1., 0., 0., -0.5, 2.5][..])
        );
        let mut row = [9.0; 5];
        features.write(seen.row(1), &mut row);
        assert_eq!(row, rows[5..]);
        // Actions stay numbers, and so do observations with very many values.
        assert_eq!(Features::of(&spec).unwrap().width(), 3);
        let many = Nest::Leaf(of(MAX_ONE_HOT + 1).1);
        assert_eq!(Features::of_observations(&many).unwrap().width(), 1);
    }
}
