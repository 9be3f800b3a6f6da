use crate::kernels::math;
use crate::network::{LinearInit, NetworkBuilder};
use crate::tape::{Tensor, activation};
use relive_random::Stream;

/// ln √(2π).
const HALF_LOG_TWO_PI: f32 = 0.918_938_5;

/// Acme's MultivariateNormalDiag head: independent normal distributions. A network outputs the means and the raw
/// standard deviations, which become `softplus(raw)·init_scale/softplus(0) + min_scale`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NormalHead {
    /// The number of dimensions of an action.
    pub dimensions: usize,
    /// The standard deviation at a raw output of 0, with which training starts.
    pub init_scale: f32,
    /// The lower bound on the standard deviation.
    pub min_scale: f32,
    /// Whether means are squashed by tanh.
    pub tanh_mean: bool,
    /// Whether standard deviations are always `init_scale`, regardless of the network's outputs.
    pub fixed_scale: bool,
}

impl NormalHead {
    /// Creates a head with Acme's defaults: standard deviations that start at 0.3, are at least 1e-6 and are learned,
    /// and means without tanh.
    pub fn new(dimensions: usize) -> Self {
        Self { dimensions, init_scale: 0.3, min_scale: 1e-6, tanh_mean: false, fixed_scale: false }
    }

    /// Adds the linear layer that the head reads. The layer outputs the means, followed by the raw standard deviations,
    /// all of them initially near zero.
    #[must_use]
    pub fn layer(self, network: NetworkBuilder<'_>) -> NetworkBuilder<'_> {
        network.init(LinearInit::NearZero { scale: 1e-4 }).linear(2 * self.dimensions)
    }

    /// Returns the distributions on the tape, from the outputs of the head's layer.
    pub fn on_tape(self, outputs: Tensor<2>) -> Gaussians {
        let [batch, _] = outputs.dims();
        let mean = outputs.clone().slice([0..batch, 0..self.dimensions]);
        let mean = if self.tanh_mean { mean.tanh() } else { mean };
        let raw = outputs.slice([0..batch, self.dimensions..2 * self.dimensions]);
        let stddev = match self.fixed_scale {
            true => raw.detach() * 0.0 + self.init_scale,
            false => activation::softplus(raw, 1.0) * self.factor() + self.min_scale,
        };
        Gaussians { mean, stddev }
    }

    /// Samples an action from one row of the layer's outputs. Returns its log-probability.
    ///
    /// # Panics
    /// If the row does not have two numbers per dimension.
    #[expect(clippy::cast_possible_truncation, reason = "f32 is what actions are")]
    pub fn sample(self, row: &[f32], stream: &mut Stream, action: &mut [f32]) -> f32 {
        self.sample_by(row, || stream.normal() as f32, action)
    }

    /// Like [`sample`](Self::sample), but uses standard normal numbers provided by the caller, one for each dimension.
    ///
    /// # Panics
    /// If the row does not have two numbers per dimension.
    pub fn sample_by(self, row: &[f32], mut draw: impl FnMut() -> f32, action: &mut [f32]) -> f32 {
        let (means, raws) = self.halves(row);
        let mut log_prob = 0.0;
        for ((action, mean), raw) in action.iter_mut().zip(means).zip(raws) {
            let (mean, stddev, z) = (self.mean(*mean), self.stddev(*raw), draw());
            *action = mean + stddev * z;
            log_prob -= 0.5 * z * z + stddev.ln() + HALF_LOG_TWO_PI;
        }
        log_prob
    }

    /// Writes the most likely action.
    ///
    /// # Panics
    /// If the row does not have two numbers per dimension.
    pub fn mode(self, row: &[f32], action: &mut [f32]) {
        let (means, _) = self.halves(row);
        action.iter_mut().zip(means).for_each(|(action, mean)| *action = self.mean(*mean));
    }

    /// Computes the means and the standard deviations, each `[batch, dimensions]`, from rows of the layer's outputs.
    pub fn distributions(self, outputs: &[f32], means: &mut Vec<f32>, stddevs: &mut Vec<f32>) {
        means.clear();
        stddevs.clear();
        for row in outputs.chunks_exact(2 * self.dimensions) {
            let (raw_means, raws) = self.halves(row);
            means.extend(raw_means.iter().map(|mean| self.mean(*mean)));
            stddevs.extend(raws.iter().map(|raw| self.stddev(*raw)));
        }
    }

    /// Computes the gradient with respect to the layer's outputs, given the gradients with respect to means and
    /// standard deviations.
    ///
    /// # Panics
    /// If the slices do not belong to the same batch.
    pub fn pull_back(self, outputs: &[f32], by_means: &[f32], by_stddevs: &[f32], by_outputs: &mut [f32]) {
        let width = self.dimensions;
        assert_eq!(outputs.len(), by_outputs.len(), "a gradient for each output");
        assert!(by_means.len() == by_stddevs.len() && 2 * by_means.len() == outputs.len(), "one batch");
        let given = by_means.chunks_exact(width).zip(by_stddevs.chunks_exact(width));
        let rows = outputs.chunks_exact(2 * width).zip(by_outputs.chunks_exact_mut(2 * width));
        for ((row, by_row), (by_means, by_stddevs)) in rows.zip(given) {
            let (means, raws) = row.split_at(width);
            let (to_means, to_raws) = by_row.split_at_mut(width);
            for ((to, by), mean) in to_means.iter_mut().zip(by_means).zip(means) {
                let squashed = self.mean(*mean);
                *to = if self.tanh_mean { by * (1.0 - squashed * squashed) } else { *by };
            }
            for ((to, by), raw) in to_raws.iter_mut().zip(by_stddevs).zip(raws) {
                *to = if self.fixed_scale { 0.0 } else { by * self.factor() * math::sigmoid(*raw) };
            }
        }
    }

    fn halves(self, row: &[f32]) -> (&[f32], &[f32]) {
        assert_eq!(row.len(), 2 * self.dimensions, "a row of means and raw standard deviations");
        row.split_at(self.dimensions)
    }

    fn mean(self, mean: f32) -> f32 {
        if self.tanh_mean { math::tanh(mean) } else { mean }
    }

    fn stddev(self, raw: f32) -> f32 {
        match self.fixed_scale {
            true => self.init_scale,
            false => math::softplus(raw) * self.factor() + self.min_scale,
        }
    }

    fn factor(self) -> f32 {
        self.init_scale / std::f32::consts::LN_2
    }
}

/// Independent normal distributions on the tape, `[batch, dimensions]`.
#[derive(Debug, Clone)]
pub struct Gaussians {
    /// The means.
    pub mean: Tensor<2>,
    /// The standard deviations.
    pub stddev: Tensor<2>,
}

impl Gaussians {
    /// Returns ln N(x) of x `[samples, batch, dimensions]`, summed over dimensions: `[samples, batch]`.
    pub fn log_prob(&self, x: &Tensor<3>) -> Tensor<2> {
        let z = (x.clone() - self.mean.clone().unsqueeze()) / self.stddev.clone().unsqueeze();
        let per_dimension = z.powi_scalar(2) * -0.5 - self.stddev.clone().log().unsqueeze();
        (per_dimension - HALF_LOG_TWO_PI).sum_dim(2).squeeze_dim(2)
    }

    /// Returns the entropies, summed over dimensions: `[batch, 1]`.
    pub fn entropy(&self) -> Tensor<2> {
        (self.stddev.clone().log() + (0.5 + HALF_LOG_TWO_PI)).sum_dim(1)
    }

    /// Returns KL(self ‖ other) of each dimension, averaged over the batch.
    pub fn divergence(&self, other: &Self) -> Tensor<1> {
        let ratio = (self.stddev.clone() / other.stddev.clone()).powi_scalar(2);
        let z = ((self.mean.clone() - other.mean.clone()) / other.stddev.clone()).powi_scalar(2);
        ((ratio.clone() + z - ratio.log() - 1.0) * 0.5).mean_dim(0).squeeze_dim(0)
    }
}
