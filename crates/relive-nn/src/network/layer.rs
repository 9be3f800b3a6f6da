use super::conv::Conv;
use super::dense::Dense;
use super::duelling::Duelling;
use super::norm::LayerNorm;
use super::pass::{Backward, Forward};
use crate::kernels::activation::Activation;

/// A layer: rows of inputs to rows of outputs, and back.
#[derive(Debug, Clone)]
pub(crate) enum Layer {
    Dense(Dense),
    Norm(LayerNorm),
    Conv(Conv),
    Duelling(Box<Duelling>),
}

impl Layer {
    pub(crate) fn outputs(&self) -> usize {
        match self {
            Self::Dense(layer) => layer.outputs,
            Self::Norm(layer) => layer.width,
            Self::Conv(layer) => layer.shape.outputs(),
            Self::Duelling(layer) => layer.outputs(),
        }
    }

    /// Numbers that it keeps for the way back, beside its outputs.
    pub(crate) fn cache_len(&self, batch: usize) -> usize {
        match self {
            Self::Dense(_) | Self::Conv(_) => 0,
            Self::Norm(layer) => layer.cache_len(batch),
            Self::Duelling(layer) => layer.cache_len(batch),
        }
    }

    /// What follows its sums. None if this layer is no sum.
    pub(crate) fn activation_mut(&mut self) -> Option<&mut Activation> {
        match self {
            Self::Dense(layer) => Some(&mut layer.activation),
            Self::Norm(layer) => Some(&mut layer.activation),
            Self::Conv(layer) => Some(&mut layer.activation),
            Self::Duelling(_) => None,
        }
    }

    pub(crate) fn forward(&self, pass: Forward<'_>, y: &mut [f32], cache: &mut [f32]) {
        match self {
            Self::Dense(layer) => layer.forward(pass, y),
            Self::Norm(layer) => layer.forward(pass, y, cache),
            Self::Conv(layer) => layer.forward(pass, y),
            Self::Duelling(layer) => layer.forward(pass, y, cache),
        }
    }

    pub(crate) fn backward(&self, pass: Backward<'_>) {
        match self {
            Self::Dense(layer) => layer.backward(pass),
            Self::Norm(layer) => layer.backward(pass),
            Self::Conv(layer) => layer.backward(pass),
            Self::Duelling(layer) => layer.backward(pass),
        }
    }
}
