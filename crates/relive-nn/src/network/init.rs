use crate::params::{Distribution, Init};

/// The initialization of a linear or convolutional layer.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum LinearInit {
    /// Weights are drawn from a truncated normal distribution of variance 1/fan_in, and biases are zero. This is the
    /// default of this crate. The default of Haiku and Sonnet, and therefore of Acme's networks, has this variance
    /// before the truncation, so the standard deviation of their weights is 0.88/√fan_in.
    #[default]
    LecunNormal,
    /// Weights and biases are uniform in ±1/√fan_in, the default of PyTorch.
    PyTorch,
    /// Weights are drawn from a uniform distribution of variance `scale`/fan_out, and biases are zero, as in Acme's
    /// LayerNormMLP with scale 1/3.
    UniformFanOut {
        /// The numerator of the variance.
        scale: f32,
    },
    /// Weights are orthogonal, and biases are zero. This is the usual initialization of PPO.
    Orthogonal {
        /// The norm of the rows or columns of the weights.
        gain: f32,
    },
    /// Weights are drawn from a truncated normal distribution of variance `scale`/fan_in, and biases are zero. A scale
    /// such as 1e-4 suits heads whose outputs start near zero.
    NearZero {
        /// The numerator of the variance.
        scale: f32,
    },
}

impl LinearInit {
    /// Returns the initialization of weights and of biases. The weights are a matrix with `columns` columns, one per unit
    /// or filter; `fan_out` is the number of outputs that an input contributes to.
    pub(crate) fn leaves(self, fan_in: usize, fan_out: usize, columns: usize) -> (Init, Init) {
        let zero = Init::Constant(0.0);
        let scaled = |scale, fan, distribution| Init::VarianceScaling { scale, fan, distribution };
        match self {
            Self::LecunNormal => (scaled(1.0, fan_in, Distribution::TruncatedNormal), zero),
            Self::PyTorch => (Init::PyTorch { fan_in }, Init::PyTorch { fan_in }),
            Self::UniformFanOut { scale } => (scaled(scale, fan_out, Distribution::Uniform), zero),
            Self::Orthogonal { gain } => (Init::Orthogonal { columns, gain }, zero),
            Self::NearZero { scale } => (scaled(scale, fan_in, Distribution::TruncatedNormal), zero),
        }
    }
}
