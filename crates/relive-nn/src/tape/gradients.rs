use burn_tensor::Tensor;

use super::tensors::values;
use super::weights::Weights;

/// The gradients of a loss, from a backward pass.
pub struct Gradients(burn_tensor::Gradients);

impl Gradients {
    /// Runs the tape backwards from a loss, and consumes the tape.
    ///
    /// # Panics
    /// If the loss does not depend on any tracked tensor.
    pub fn of(loss: &Tensor<1>) -> Self {
        Self(loss.backward())
    }

    /// Returns the gradients with respect to all parameters, in order. They are zero for frozen parameters and for
    /// parameters on which the loss does not depend.
    pub fn by_weights(&mut self, weights: &Weights<'_>) -> Vec<f32> {
        let mut used = weights.used();
        let whole = used.len() == 1 && used[0].0 == (0..weights.len());
        if whole {
            let tensor = used.remove(0).1;
            return tensor.grad_remove(&mut self.0).map_or_else(|| vec![0.0; weights.len()], values);
        }
        let mut gradient = vec![0.0; weights.len()];
        for (range, tensor) in used {
            let part = tensor.grad_remove(&mut self.0).map(values).unwrap_or_default();
            gradient[range].iter_mut().zip(part).for_each(|(sum, value)| *sum += value);
        }
        gradient
    }

    /// Returns the gradient with respect to a [`variable`](super::variable). It is zero if the loss does not depend on
    /// the variable.
    pub fn by_tensor<const D: usize>(&mut self, tensor: &Tensor<D>) -> Vec<f32> {
        let found = tensor.grad_remove(&mut self.0);
        found.map_or_else(|| vec![0.0; tensor.shape().num_elements()], values)
    }
}

impl std::fmt::Debug for Gradients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gradients").finish_non_exhaustive()
    }
}
