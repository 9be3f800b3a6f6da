use std::ops::Range;
use std::sync::Arc;

use super::dense::FEW_ROWS;
use super::pass::{Backward, Forward};
use super::stack::Stack;
use crate::kernels::buffers::Buffer;
use crate::kernels::inputs::Inputs;
use crate::params::Params;

/// A feed-forward network from rows of inputs to rows of outputs. It stores the sizes and positions of its parameters;
/// their values are in [`Params`].
///
/// Learners with a tape run it [on the tape](crate::tape). [`infer`](Self::infer) records nothing and allocates
/// nothing.
///
/// ```
/// use relive_nn::{Activation, Key, Layout, Network, Scratch};
///
/// let mut layout = Layout::new();
/// let network = Network::builder(&mut layout, "q", 4).mlp(&[64, 64], Activation::Relu).linear(2).build();
/// let params = layout.init(Key::from_seed(1));
/// let mut scratch = Scratch::default();
/// let q = network.infer(&params, &[0.1, 0.2, 0.3, 0.4], &mut scratch);
/// assert_eq!(q.len(), 2);
/// ```
#[derive(Debug, Clone)]
pub struct Network {
    stack: Arc<Stack>,
    range: Range<usize>,
}

/// Reused memory of [`Network::infer`].
#[derive(Debug, Default, Clone)]
pub struct Scratch {
    pub(crate) trace: Vec<f32>,
    outputs: Vec<f32>,
}

impl Network {
    pub(crate) fn new(stack: Stack, range: Range<usize>) -> Self {
        Self { stack: Arc::new(stack), range }
    }

    /// Returns the width of an input row.
    pub fn inputs(&self) -> usize {
        self.stack.inputs
    }

    /// Returns the width of an output row.
    pub fn outputs(&self) -> usize {
        self.stack.outputs()
    }

    /// Returns the range of the network's numbers within [`Params`].
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Computes the outputs for any number of input rows, which are floats or [bytes](Inputs::Bytes), without a tape.
    ///
    /// # Panics
    /// If `x` is not a whole number of rows, or the parameters have a different layout.
    pub fn infer<'a, 's>(
        &self,
        params: &Params,
        x: impl Into<Inputs<'a>>,
        scratch: &'s mut Scratch,
    ) -> &'s [f32] {
        self.infer_inputs(params, x.into(), scratch)
    }

    fn infer_inputs<'s>(&self, params: &Params, x: Inputs<'_>, scratch: &'s mut Scratch) -> &'s [f32] {
        let batch = self.rows(x);
        scratch.trace.resize(self.stack.trace_len(batch), 0.0);
        let weights = &params.values()[self.range()];
        self.stack.forward(Forward { weights, x, batch }, &mut scratch.trace);
        self.stack.last(&scratch.trace, batch)
    }

    /// Like [`infer`](Self::infer), but with row-by-row products: the bits of a row's outputs do not depend on the
    /// other rows. Products of many rows at once add in a different order.
    ///
    /// # Panics
    /// Same as [`infer`](Self::infer).
    pub fn infer_each<'a, 's>(
        &self,
        params: &Params,
        x: impl Into<Inputs<'a>>,
        scratch: &'s mut Scratch,
    ) -> &'s [f32] {
        let x = x.into();
        if self.rows(x) <= FEW_ROWS {
            return self.infer_inputs(params, x, scratch);
        }
        let mut outputs = std::mem::take(&mut scratch.outputs);
        outputs.clear();
        for x in x.chunks(FEW_ROWS * self.inputs()) {
            outputs.extend_from_slice(self.infer_inputs(params, x, scratch));
        }
        scratch.outputs = outputs;
        &scratch.outputs
    }

    /// Computes the gradient of a loss with respect to this network's parameters; other parameters of the layout get 0.
    /// `loss` receives the outputs and writes its closed-form gradient with respect to them, row by row; parts that it
    /// does not write are 0.
    ///
    /// # Panics
    /// If `x` is not a whole number of rows, or the parameters have a different layout.
    pub fn gradient<'a, R>(
        &self,
        params: &Params,
        x: impl Into<Inputs<'a>>,
        loss: impl FnOnce(&[f32], &mut [f32]) -> R,
    ) -> (R, Vec<f32>) {
        let mut gradient = vec![0.0; params.values().len()];
        (self.gradient_into(params, x, &mut gradient, loss), gradient)
    }

    /// Like [`gradient`](Self::gradient), but writes to a gradient with respect to all parameters of the layout; the
    /// numbers of other networks stay unchanged.
    ///
    /// # Panics
    /// The errors of [`gradient`](Self::gradient), or the gradient has a different layout.
    pub fn gradient_into<'a, R>(
        &self,
        params: &Params,
        x: impl Into<Inputs<'a>>,
        gradient: &mut [f32],
        loss: impl FnOnce(&[f32], &mut [f32]) -> R,
    ) -> R {
        self.pulled_back(params, x.into(), (Some(&mut gradient[self.range()]), None), loss)
    }

    /// Computes the gradient of such a loss with respect to the inputs, row by row, without the gradient with respect
    /// to the parameters.
    ///
    /// # Panics
    /// The errors of [`gradient`](Self::gradient), or the gradient and the inputs differ in length.
    pub fn input_gradient_into<'a, R>(
        &self,
        params: &Params,
        x: impl Into<Inputs<'a>>,
        gradient: &mut [f32],
        loss: impl FnOnce(&[f32], &mut [f32]) -> R,
    ) -> R {
        self.pulled_back(params, x.into(), (None, Some(gradient)), loss)
    }

    /// Computes both gradients of a loss on the outputs: with respect to all parameters of the layout, like
    /// [`gradient_into`](Self::gradient_into), and with respect to the inputs, row by row.
    ///
    /// # Panics
    /// The errors of [`gradient_into`](Self::gradient_into) and [`input_gradient_into`](Self::input_gradient_into).
    pub fn gradients_into<'a, R>(
        &self,
        params: &Params,
        x: impl Into<Inputs<'a>>,
        (gradient, by_inputs): (&mut [f32], &mut [f32]),
        loss: impl FnOnce(&[f32], &mut [f32]) -> R,
    ) -> R {
        self.pulled_back(params, x.into(), (Some(&mut gradient[self.range()]), Some(by_inputs)), loss)
    }

    /// Computes a loss, and its gradients with respect to parameters and inputs if they are requested.
    fn pulled_back<R>(
        &self,
        params: &Params,
        x: Inputs<'_>,
        (dweights, dx): (Option<&mut [f32]>, Option<&mut [f32]>),
        loss: impl FnOnce(&[f32], &mut [f32]) -> R,
    ) -> R {
        let batch = self.rows(x);
        let forward = Forward { weights: &params.values()[self.range()], x, batch };
        let mut trace = Buffer::take(self.stack.trace_len(batch));
        self.stack.forward(forward, &mut trace);
        let outputs = self.stack.last(&trace, batch);
        let mut dy = Buffer::take(outputs.len());
        dy.fill(0.0);
        let result = loss(outputs, &mut dy);
        self.pull_back(Backward { forward, y: &trace, cache: &[], dy: &mut dy, dweights, dx });
        result
    }

    pub(crate) fn rows(&self, x: Inputs<'_>) -> usize {
        let (len, width) = (x.len(), self.inputs());
        assert!(len.is_multiple_of(width), "{len} numbers are not a whole number of rows of {width} inputs");
        len / width
    }

    pub(crate) fn trace_len(&self, batch: usize) -> usize {
        self.stack.trace_len(batch)
    }

    pub(crate) fn trace<'a>(&self, pass: Forward<'_>, trace: &'a mut [f32]) -> &'a [f32] {
        self.stack.forward(pass, trace);
        self.stack.last(trace, pass.batch)
    }

    pub(crate) fn pull_back(&self, pass: Backward<'_>) {
        self.stack.backward(pass);
    }
}
