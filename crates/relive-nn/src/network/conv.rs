use super::init::LinearInit;
use super::pass::{Backward, Forward, Place};
use super::plan::Plan;
use crate::kernels::activation::Activation;
use crate::kernels::buffers::Buffer;
use crate::kernels::gemm::{Matrix, Target, multiply};
use crate::kernels::patches::{PatchShape, gather, scatter};

/// A convolution without padding over images with channels last, computed as a product with the patches. W has shape
/// `[kernel, kernel, channels, filters]`.
///
/// Patches are copied image by image, and again during the backward pass, so that they stay in the cache. The patches
/// of a whole batch would be written to memory and read back.
#[derive(Debug, Clone)]
pub(crate) struct Conv {
    pub(crate) shape: ConvShape,
    pub(crate) activation: Activation,
    weight: Place,
    bias: Place,
}

/// The sizes of a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConvShape {
    pub(crate) patch: PatchShape,
    pub(crate) filters: usize,
}

impl ConvShape {
    pub(crate) fn outputs(self) -> usize {
        self.patch.patches() * self.filters
    }
}

impl Conv {
    pub(crate) fn new(plan: &mut Plan<'_>, shape: ConvShape, init: LinearInit) -> Self {
        let PatchShape { kernel, channels, .. } = shape.patch;
        let fan_out = kernel * kernel * shape.filters;
        let (weight, bias) = init.leaves(shape.patch.len(), fan_out, shape.filters);
        Self {
            shape,
            activation: Activation::Identity,
            weight: plan.leaf("w", &[kernel, kernel, channels, shape.filters], weight),
            bias: plan.leaf("b", &[shape.filters], bias),
        }
    }

    pub(crate) fn forward(&self, pass: Forward<'_>, y: &mut [f32]) {
        let ConvShape { patch, filters } = self.shape;
        let bias = &pass.weights[self.bias.clone()];
        let weight = Matrix::new(&pass.weights[self.weight.clone()], patch.len(), filters);
        let mut patches = Buffer::take(patch.patches() * patch.len());
        let images = pass.x.chunks(patch.image());
        for (image, y) in images.zip(y.chunks_exact_mut(self.shape.outputs())) {
            gather(patch, image, &mut patches);
            y.chunks_exact_mut(filters).for_each(|row| row.copy_from_slice(bias));
            multiply(y, Target::Add, Matrix::new(&patches, patch.patches(), patch.len()), weight);
            self.activation.apply(y);
        }
    }

    pub(crate) fn backward(&self, pass: Backward<'_>) {
        let Backward { forward, y, dy, dweights, dx, .. } = pass;
        self.activation.pull_back(dy, y);
        if let Some(dweights) = dweights {
            self.by_weights(forward, dy, dweights);
        }
        if let Some(dx) = dx {
            self.by_inputs(forward, dy, dx);
        }
    }

    fn by_weights(&self, forward: Forward<'_>, dy: &[f32], dweights: &mut [f32]) {
        let ConvShape { patch, filters } = self.shape;
        super::dense::sum_of_rows(dy, &mut dweights[self.bias.clone()]);
        let dweight = &mut dweights[self.weight.clone()];
        if forward.x.is_empty() {
            dweight.fill(0.0);
        }
        let mut patches = Buffer::take(patch.patches() * patch.len());
        let images = forward.x.chunks(patch.image());
        for (index, (image, dy)) in images.zip(dy.chunks_exact(self.shape.outputs())).enumerate() {
            gather(patch, image, &mut patches);
            let target = if index == 0 { Target::Overwrite } else { Target::Add };
            let rows = Matrix::new(&patches, patch.patches(), patch.len());
            multiply(dweight, target, rows.transposed(), Matrix::new(dy, patch.patches(), filters));
        }
    }

    fn by_inputs(&self, forward: Forward<'_>, dy: &[f32], dx: &mut [f32]) {
        let ConvShape { patch, filters } = self.shape;
        let weight = Matrix::new(&forward.weights[self.weight.clone()], patch.len(), filters);
        let mut patches = Buffer::take(patch.patches() * patch.len());
        for (dx, dy) in dx.chunks_exact_mut(patch.image()).zip(dy.chunks_exact(self.shape.outputs())) {
            let dy = Matrix::new(dy, patch.patches(), filters);
            multiply(&mut patches, Target::Overwrite, dy, weight.transposed());
            dx.fill(0.0);
            scatter(patch, &patches, dx);
        }
    }
}
