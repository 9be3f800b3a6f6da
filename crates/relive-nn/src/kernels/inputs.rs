use crate::kernels::buffers::Buffer;
use crate::kernels::wide;

/// The factor for an image's bytes: 255 becomes 1.
const SCALE: f32 = 1.0 / 255.0;

/// The input rows of a network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Inputs<'a> {
    /// Rows of floats.
    Floats(&'a [f32]),
    /// Images of bytes; each byte represents its value divided by 255. If the first layer is a convolution, it reads
    /// the bytes directly, without converting the batch to float32.
    Bytes(&'a [u8]),
}

impl<'a> Inputs<'a> {
    /// Returns the number of values in all rows.
    #[must_use]
    pub fn len(self) -> usize {
        match self {
            Inputs::Floats(numbers) => numbers.len(),
            Inputs::Bytes(bytes) => bytes.len(),
        }
    }

    /// Returns whether there are no values.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns consecutive chunks of `len` values, of which the last may be shorter.
    ///
    /// # Panics
    /// If `len` is 0.
    pub fn chunks(self, len: usize) -> impl Iterator<Item = Inputs<'a>> {
        (0..self.len()).step_by(len).map(move |begin| self.slice(begin, len.min(self.len() - begin)))
    }

    /// Returns `len` values, starting at `begin`.
    pub(crate) fn slice(self, begin: usize, len: usize) -> Inputs<'a> {
        match self {
            Inputs::Floats(numbers) => Inputs::Floats(&numbers[begin..begin + len]),
            Inputs::Bytes(bytes) => Inputs::Bytes(&bytes[begin..begin + len]),
        }
    }

    /// Returns the values, which must be floats: they come from another layer, or have been converted.
    pub(crate) fn floats(self) -> &'a [f32] {
        match self {
            Inputs::Floats(numbers) => numbers,
            Inputs::Bytes(_) => &[],
        }
    }

    /// Writes the values to a slice of the same length.
    #[inline]
    pub(crate) fn write(self, out: &mut [f32]) {
        match self {
            Inputs::Floats(numbers) => out.copy_from_slice(numbers),
            Inputs::Bytes(bytes) => {
                out.iter_mut().zip(bytes).for_each(|(out, byte)| *out = f32::from(*byte) * SCALE);
            }
        }
    }

    /// Returns the bytes converted to floats, or `None` if the values already are floats.
    pub(crate) fn converted(self) -> Option<Buffer> {
        let Inputs::Bytes(bytes) = self else { return None };
        let mut numbers = Buffer::take(bytes.len());
        wide(|| self.write(&mut numbers));
        Some(numbers)
    }
}

impl<'a> From<&'a [f32]> for Inputs<'a> {
    fn from(numbers: &'a [f32]) -> Self {
        Inputs::Floats(numbers)
    }
}

impl<'a, const N: usize> From<&'a [f32; N]> for Inputs<'a> {
    fn from(numbers: &'a [f32; N]) -> Self {
        Inputs::Floats(numbers)
    }
}

impl<'a> From<&'a Vec<f32>> for Inputs<'a> {
    fn from(numbers: &'a Vec<f32>) -> Self {
        Inputs::Floats(numbers)
    }
}

impl<'a> From<&'a mut Vec<f32>> for Inputs<'a> {
    fn from(numbers: &'a mut Vec<f32>) -> Self {
        Inputs::Floats(numbers)
    }
}

impl<'a> From<&'a mut [f32]> for Inputs<'a> {
    fn from(numbers: &'a mut [f32]) -> Self {
        Inputs::Floats(numbers)
    }
}

impl<'a> From<&'a [u8]> for Inputs<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Inputs::Bytes(bytes)
    }
}

impl<'a> From<&'a Vec<u8>> for Inputs<'a> {
    fn from(bytes: &'a Vec<u8>) -> Self {
        Inputs::Bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_bytes_are_scaled() {
        let floats = Inputs::from(&[0_u8, 51, 255][..]).converted().unwrap();
        assert_eq!(floats.len(), 3);
        assert!((floats[1] - 0.2).abs() < 1e-7 && floats[0] == 0.0 && floats[2] == 1.0);
    }
}
