//! Patches of images for convolutions. Channels are last, so each row of a patch is contiguous.

use crate::kernels::inputs::Inputs;

/// Square patches of an image, without padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PatchShape {
    pub(crate) height: usize,
    pub(crate) width: usize,
    pub(crate) channels: usize,
    pub(crate) kernel: usize,
    pub(crate) stride: usize,
}

impl PatchShape {
    pub(crate) fn image(self) -> usize {
        self.height * self.width * self.channels
    }

    /// Returns the number of values in a patch.
    pub(crate) fn len(self) -> usize {
        self.kernel * self.kernel * self.channels
    }

    /// Returns the number of rows and the number of columns of patches.
    pub(crate) fn grid(self) -> (usize, usize) {
        ((self.height - self.kernel) / self.stride + 1, (self.width - self.kernel) / self.stride + 1)
    }

    pub(crate) fn patches(self) -> usize {
        let (rows, columns) = self.grid();
        rows * columns
    }

    /// Returns the offset of each patch in the image, in order.
    fn corners(self) -> impl Iterator<Item = usize> {
        let (rows, columns) = self.grid();
        let corner = move |row, column| (row * self.width + column) * self.stride * self.channels;
        (0..rows).flat_map(move |row| (0..columns).map(move |column| corner(row, column)))
    }

    /// Returns the lengths of a row in a patch and of a row in the image.
    fn runs(self) -> (usize, usize) {
        (self.kernel * self.channels, self.width * self.channels)
    }
}

/// Writes the patches of an image, one after the other.
pub(crate) fn gather(shape: PatchShape, image: Inputs<'_>, patches: &mut [f32]) {
    let (run, row) = shape.runs();
    super::wide(|| {
        for (corner, patch) in shape.corners().zip(patches.chunks_exact_mut(shape.len())) {
            for (index, to) in patch.chunks_exact_mut(run).enumerate() {
                image.slice(corner + index * row, run).write(to);
            }
        }
    });
}

/// Adds the patches to the image at their positions.
pub(crate) fn scatter(shape: PatchShape, patches: &[f32], image: &mut [f32]) {
    let (run, row) = shape.runs();
    super::wide(|| {
        for (corner, patch) in shape.corners().zip(patches.chunks_exact(shape.len())) {
            for (index, from) in patch.chunks_exact(run).enumerate() {
                let begin = corner + index * row;
                image[begin..begin + run].iter_mut().zip(from).for_each(|(to, from)| *to += from);
            }
        }
    });
}
