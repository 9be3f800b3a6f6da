use super::pass::{Backward, Forward, Place};
use super::plan::Plan;
use crate::kernels::activation::Activation;
use crate::kernels::wide;
use crate::params::Init;

/// The number added to variances (Ba et al. 2016), as in Haiku, Sonnet and PyTorch.
const EPSILON: f32 = 1e-5;

/// `y = activation(scale·(x − mean)/σ + offset)` over each row.
#[derive(Debug, Clone)]
pub(crate) struct LayerNorm {
    pub(crate) width: usize,
    pub(crate) activation: Activation,
    scale: Place,
    offset: Place,
}

impl LayerNorm {
    pub(crate) fn new(plan: &mut Plan<'_>, width: usize) -> Self {
        Self {
            width,
            activation: Activation::Identity,
            scale: plan.leaf("scale", &[width], Init::Constant(1.0)),
            offset: plan.leaf("offset", &[width], Init::Constant(0.0)),
        }
    }

    /// Returns the size of the cache, which holds the normalized rows and 1/σ of each row.
    pub(crate) fn cache_len(&self, batch: usize) -> usize {
        batch * (self.width + 1)
    }

    pub(crate) fn forward(&self, pass: Forward<'_>, y: &mut [f32], cache: &mut [f32]) {
        let (scale, offset) = (&pass.weights[self.scale.clone()], &pass.weights[self.offset.clone()]);
        let (normal, inverse) = cache.split_at_mut(pass.batch * self.width);
        wide(|| {
            let rows = pass.x.floats().chunks_exact(self.width).zip(normal.chunks_exact_mut(self.width));
            for ((x, normal), inverse) in rows.zip(inverse) {
                *inverse = normalize(x, normal);
            }
            for (normal, y) in normal.chunks_exact(self.width).zip(y.chunks_exact_mut(self.width)) {
                let terms = normal.iter().zip(scale).zip(offset);
                y.iter_mut().zip(terms).for_each(|(y, ((n, s), o))| *y = n * s + o);
            }
        });
        self.activation.apply(y);
    }

    pub(crate) fn backward(&self, pass: Backward<'_>) {
        let Forward { weights, batch, .. } = pass.forward;
        let (normal, inverse) = pass.cache.split_at(batch * self.width);
        self.activation.pull_back(pass.dy, pass.y);
        if let Some(dweights) = pass.dweights {
            self.by_weights(pass.dy, normal, dweights);
        }
        if let Some(dx) = pass.dx {
            let scale = &weights[self.scale.clone()];
            let rows = dx.chunks_exact_mut(self.width).zip(pass.dy.chunks_exact(self.width));
            for (((dx, dy), normal), inverse) in rows.zip(normal.chunks_exact(self.width)).zip(inverse) {
                wide(|| by_row(dx, dy, normal, scale, *inverse));
            }
        }
    }

    fn by_weights(&self, dy: &[f32], normal: &[f32], dweights: &mut [f32]) {
        dweights[self.scale.clone()].fill(0.0);
        dweights[self.offset.clone()].fill(0.0);
        for (dy, normal) in dy.chunks_exact(self.width).zip(normal.chunks_exact(self.width)) {
            let scale = dweights[self.scale.clone()].iter_mut();
            scale.zip(dy.iter().zip(normal)).for_each(|(d, (dy, n))| *d += dy * n);
            dweights[self.offset.clone()].iter_mut().zip(dy).for_each(|(d, dy)| *d += dy);
        }
    }
}

#[inline(always)]
fn normalize(x: &[f32], normal: &mut [f32]) -> f32 {
    let width = count(x.len());
    let mean = x.iter().sum::<f32>() / width;
    let variance = x.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / width;
    let inverse = 1.0 / (variance + EPSILON).sqrt();
    normal.iter_mut().zip(x).for_each(|(n, x)| *n = (x - mean) * inverse);
    inverse
}

/// With g = dy·scale: dx = (g − mean(g) − n·mean(g·n))/σ.
#[inline(always)]
fn by_row(dx: &mut [f32], dy: &[f32], normal: &[f32], scale: &[f32], inverse: f32) {
    dx.iter_mut().zip(dy.iter().zip(scale)).for_each(|(g, (dy, s))| *g = dy * s);
    let mean = dx.iter().sum::<f32>() / count(dx.len());
    let along = dx.iter().zip(normal).map(|(g, n)| g * n).sum::<f32>() / count(dx.len());
    dx.iter_mut().zip(normal).for_each(|(g, n)| *g = (*g - mean - n * along) * inverse);
}

#[expect(clippy::cast_precision_loss, reason = "widths are far below 2^24")]
fn count(len: usize) -> f32 {
    len as f32
}
