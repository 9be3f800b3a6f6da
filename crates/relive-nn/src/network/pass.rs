//! The inputs and outputs of a pass through a layer.

use std::ops::Range;

use crate::kernels::inputs::Inputs;

/// The forward pass of a batch: the parameters of the whole network, and rows of inputs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Forward<'a> {
    pub(crate) weights: &'a [f32],
    pub(crate) x: Inputs<'a>,
    pub(crate) batch: usize,
}

/// The backward pass through a layer, with the results of the forward pass.
#[derive(Debug)]
pub(crate) struct Backward<'a> {
    pub(crate) forward: Forward<'a>,
    /// The layer's outputs, and its cache.
    pub(crate) y: &'a [f32],
    pub(crate) cache: &'a [f32],
    /// The loss's gradient with respect to the outputs. The pass may overwrite it.
    pub(crate) dy: &'a mut [f32],
    /// Receives the gradients with respect to the network's parameters, unless those are frozen.
    pub(crate) dweights: Option<&'a mut [f32]>,
    /// Receives the gradients with respect to the inputs, if they are requested.
    pub(crate) dx: Option<&'a mut [f32]>,
}

/// The position of a leaf among the network's parameters.
pub(crate) type Place = Range<usize>;
