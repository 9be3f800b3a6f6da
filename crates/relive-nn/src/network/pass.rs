//! What goes through layers.

use std::ops::Range;

use crate::kernels::inputs::Inputs;

/// A batch in front of a layer: the numbers of the whole network, and rows of inputs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Forward<'a> {
    pub(crate) weights: &'a [f32],
    pub(crate) x: Inputs<'a>,
    pub(crate) batch: usize,
}

/// The way back through a layer. What was computed on the way there is at hand.
#[derive(Debug)]
pub(crate) struct Backward<'a> {
    pub(crate) forward: Forward<'a>,
    /// What the layer put out, and what it kept for itself.
    pub(crate) y: &'a [f32],
    pub(crate) cache: &'a [f32],
    /// The loss' gradient by the outputs. Spoilt on the way.
    pub(crate) dy: &'a mut [f32],
    /// Where gradients by the network's numbers go, unless those are frozen.
    pub(crate) dweights: Option<&'a mut [f32]>,
    /// Where gradients by the inputs go, if somebody wants them.
    pub(crate) dx: Option<&'a mut [f32]>,
}

/// Where a leaf lies among the network's numbers.
pub(crate) type Place = Range<usize>;
