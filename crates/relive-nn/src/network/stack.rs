use super::layer::Layer;
use super::pass::{Backward, Forward};
use crate::inputs::Inputs;
use crate::kernels::buffers::Buffer;

/// Layers one after the other. What they put out and keep lies in one slice, the *trace*: outputs and cache of the first, of the
/// second, and so on.
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

    /// The outputs of the last layer within a trace.
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

    /// `pass.y` is the whole trace here, and `pass.dy` the gradient by the last layer's outputs.
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

    /// Bytes as numbers, where the first layer does not read them as they are.
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
