use crate::kernels::math;
use crate::tape::{self, Tensor};

/// The smallest and largest action, per dimension.
#[derive(Debug, Clone, PartialEq)]
pub struct ActionBounds {
    min: Vec<f32>,
    max: Vec<f32>,
}

impl ActionBounds {
    /// # Panics
    /// If the lengths differ, or a minimum is not below its maximum.
    pub fn new(min: Vec<f32>, max: Vec<f32>) -> Self {
        assert_eq!(min.len(), max.len(), "as many minima as maxima");
        assert!(min.iter().zip(&max).all(|(min, max)| min < max), "minima {min:?} below maxima {max:?}");
        Self { min, max }
    }

    /// Returns the number of dimensions of an action.
    pub fn dimensions(&self) -> usize {
        self.min.len()
    }

    /// Squashes numbers to the bounds, like Acme's TanhToSpec: `min + (tanh(x) + 1)/2·(max − min)`.
    pub fn squash(&self, actions: &mut [f32]) {
        self.each(actions, |x, min, max| min + 0.5 * (math::tanh(x) + 1.0) * (max - min));
    }

    /// Clips numbers to the bounds, like Acme's ClipToSpec.
    pub fn clip(&self, actions: &mut [f32]) {
        self.each(actions, f32::clamp);
    }

    fn each(&self, actions: &mut [f32], map: impl Fn(f32, f32, f32) -> f32) {
        for action in actions.chunks_exact_mut(self.dimensions()) {
            let bounds = self.min.iter().zip(&self.max);
            action.iter_mut().zip(bounds).for_each(|(x, (min, max))| *x = map(*x, *min, *max));
        }
    }

    /// Applies [`squash`](Self::squash) on the tape.
    pub fn squash_on_tape(&self, actions: Tensor<2>) -> Tensor<2> {
        let (min, span) = self.tensors();
        (actions.tanh() + 1.0) * 0.5 * span + min
    }

    /// Applies [`clip`](Self::clip) on the tape. There is no gradient beyond the bounds.
    pub fn clip_on_tape(&self, actions: Tensor<2>) -> Tensor<2> {
        let (min, span) = self.tensors();
        let max = min.clone() + span;
        actions.max_pair(min).min_pair(max)
    }

    fn tensors(&self) -> (Tensor<2>, Tensor<2>) {
        let span = self.max.iter().zip(&self.min).map(|(max, min)| max - min).collect();
        let shape = [1, self.dimensions()];
        (tape::constant(self.min.clone(), shape), tape::constant(span, shape))
    }
}
