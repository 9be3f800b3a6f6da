//! Layers, and stacks of them. A layer may itself consist of two stacks, like [`Duelling`].

use super::conv::Conv;
use super::dense::Dense;
use super::norm::LayerNorm;
use super::pass::{Backward, Forward};
use crate::kernels::activation::Activation;
use crate::kernels::buffers::Buffer;
use crate::kernels::inputs::Inputs;

/// A sequence of layers. The layers' outputs and caches are in one slice, the *trace*: the outputs and the cache of the
/// first layer, then the outputs and the cache of the second layer, and so on.
#[derive(Debug, Clone)]
pub(crate) struct Stack {
    pub(crate) inputs: usize,
    pub(crate) layers: Vec<Layer>,
}

impl Stack {
    pub(crate) fn outputs(&self) -> usize {
        self.layers.last().map_or(self.inputs, Layer::outputs)
    }

    pub(crate) fn trace_len(&self, batch: usize) -> usize {
        self.layers.iter().map(|layer| layer.outputs() * batch + layer.cache_len(batch)).sum()
    }

    /// Returns the outputs of the last layer within a trace.
    pub(crate) fn last<'a>(&self, trace: &'a [f32], batch: usize) -> &'a [f32] {
        let cache = self.layers.last().map_or(0, |layer| layer.cache_len(batch));
        let end = trace.len() - cache;
        &trace[end - self.outputs() * batch..end]
    }

    pub(crate) fn forward(&self, pass: Forward<'_>, trace: &mut [f32]) {
        let Forward { weights, x, batch } = pass;
        let converted = self.converted(x);
        let mut x = converted.as_deref().map_or(x, Inputs::Floats);
        let mut rest = trace;
        for layer in &self.layers {
            let (y, behind) = rest.split_at_mut(layer.outputs() * batch);
            let (cache, behind) = behind.split_at_mut(layer.cache_len(batch));
            layer.forward(Forward { weights, x, batch }, y, cache);
            (x, rest) = (Inputs::Floats(y), behind);
        }
    }

    /// Runs the backward pass. `pass.y` is the whole trace, and `pass.dy` the gradient with respect to the last layer's
    /// outputs.
    pub(crate) fn backward(&self, pass: Backward<'_>) {
        let Backward { forward, y: trace, dy, mut dweights, mut dx, .. } = pass;
        let Forward { weights, x, batch } = forward;
        let converted = self.converted(x);
        let x = converted.as_deref().map_or(x, Inputs::Floats);
        let mut end = trace.len();
        let mut gradient = Buffer::take(dy.len());
        gradient.copy_from_slice(dy);
        for (index, layer) in self.layers.iter().enumerate().rev() {
            let cache = end - layer.cache_len(batch);
            let begin = cache - layer.outputs() * batch;
            let inputs = match index {
                0 => x,
                _ => Inputs::Floats(self.outputs_before(index, &trace[..begin], batch)),
            };
            let mut before = Buffer::take(if index == 0 { 0 } else { inputs.len() });
            layer.backward(Backward {
                forward: Forward { weights, x: inputs, batch },
                y: &trace[begin..cache],
                cache: &trace[cache..end],
                dy: &mut gradient,
                dweights: dweights.as_deref_mut(),
                dx: if index == 0 { dx.take() } else { Some(&mut before) },
            });
            gradient = before;
            end = begin;
        }
    }

    /// Returns the bytes converted to floats if the first layer cannot read bytes.
    fn converted(&self, x: Inputs<'_>) -> Option<Buffer> {
        match self.layers.first() {
            Some(Layer::Conv(_)) => None,
            _ => x.converted(),
        }
    }

    fn outputs_before<'a>(&self, index: usize, trace: &'a [f32], batch: usize) -> &'a [f32] {
        let layer = &self.layers[index - 1];
        let end = trace.len() - layer.cache_len(batch);
        &trace[end - layer.outputs() * batch..end]
    }
}

/// A layer: a function from rows of inputs to rows of outputs, with its backward pass.
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

    /// Returns the number of values kept for the backward pass, in addition to the outputs.
    pub(crate) fn cache_len(&self, batch: usize) -> usize {
        match self {
            Self::Dense(_) | Self::Conv(_) => 0,
            Self::Norm(layer) => layer.cache_len(batch),
            Self::Duelling(layer) => layer.cache_len(batch),
        }
    }

    /// Returns the layer's activation function, or `None` if it has none.
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

/// `q = v + a − mean(a)`: one stream for the state's value and one for the actions' advantages (Wang et al. 2016, eq.
/// 9).
#[derive(Debug, Clone)]
pub(crate) struct Duelling {
    pub(crate) value: Stack,
    pub(crate) advantage: Stack,
    /// The number of values per action, each combined in the same way: 1, or the number of atoms of a distribution.
    pub(crate) atoms: usize,
}

impl Duelling {
    pub(crate) fn outputs(&self) -> usize {
        self.advantage.outputs()
    }

    pub(crate) fn cache_len(&self, batch: usize) -> usize {
        self.value.trace_len(batch) + self.advantage.trace_len(batch)
    }

    pub(crate) fn forward(&self, pass: Forward<'_>, y: &mut [f32], cache: &mut [f32]) {
        let (value, advantage) = cache.split_at_mut(self.value.trace_len(pass.batch));
        self.value.forward(pass, value);
        self.advantage.forward(pass, advantage);
        let values = self.value.last(value, pass.batch).chunks_exact(self.atoms);
        let advantages = self.advantage.last(advantage, pass.batch).chunks_exact(self.outputs());
        for ((y, value), advantage) in y.chunks_exact_mut(self.outputs()).zip(values).zip(advantages) {
            self.combine(value, advantage, y);
        }
    }

    fn combine(&self, value: &[f32], advantage: &[f32], y: &mut [f32]) {
        for (atom, value) in value.iter().enumerate() {
            let offset = value - self.mean(advantage, atom);
            let own = |row: &mut [f32], of: &[f32]| row[atom] = of[atom] + offset;
            y.chunks_exact_mut(self.atoms)
                .zip(advantage.chunks_exact(self.atoms))
                .for_each(|(y, a)| own(y, a));
        }
    }

    /// Returns the mean over the actions.
    #[expect(clippy::cast_precision_loss, reason = "actions are few")]
    fn mean(&self, row: &[f32], atom: usize) -> f32 {
        let actions = row.len() / self.atoms;
        row.iter().skip(atom).step_by(self.atoms).sum::<f32>() / actions as f32
    }

    pub(crate) fn backward(&self, pass: Backward<'_>) {
        let Backward { forward, cache, dy, mut dweights, mut dx, .. } = pass;
        let (value_trace, advantage_trace) = cache.split_at(self.value.trace_len(forward.batch));
        let mut by_value = Buffer::take(forward.batch * self.atoms);
        self.split(dy, &mut by_value);
        let wanted = dx.is_some();
        let mut by_input = Buffer::take(if wanted { forward.x.len() } else { 0 });
        let inputs = wanted.then_some(&mut *by_input);
        self.value.backward(Backward {
            forward,
            y: value_trace,
            cache: &[],
            dy: &mut by_value,
            dweights: dweights.as_deref_mut(),
            dx: inputs,
        });
        let (y, inputs) = (advantage_trace, dx.as_deref_mut());
        self.advantage.backward(Backward { forward, y, cache: &[], dy, dweights, dx: inputs });
        if let Some(dx) = dx {
            dx.iter_mut().zip(by_input.iter()).for_each(|(dx, more)| *dx += more);
        }
    }

    /// The gradient with respect to the value is the sum over actions. The gradients with respect to the advantages are
    /// reduced by their mean.
    #[expect(clippy::cast_precision_loss, reason = "actions are few")]
    fn split(&self, dy: &mut [f32], by_value: &mut [f32]) {
        let actions = (self.outputs() / self.atoms) as f32;
        for (dy, by_value) in dy.chunks_exact_mut(self.outputs()).zip(by_value.chunks_exact_mut(self.atoms)) {
            for (atom, by_value) in by_value.iter_mut().enumerate() {
                *by_value = dy.iter().skip(atom).step_by(self.atoms).sum();
                let mean = *by_value / actions;
                dy.iter_mut().skip(atom).step_by(self.atoms).for_each(|d| *d -= mean);
            }
        }
    }
}
