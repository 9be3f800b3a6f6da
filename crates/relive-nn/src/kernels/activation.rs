use super::{math, wide};

/// The activation function of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Activation {
    /// No activation.
    #[default]
    Identity,
    /// max(x, 0).
    Relu,
    /// x for positive x, eˣ − 1 otherwise (Clevert et al. 2016).
    Elu,
    /// The hyperbolic tangent.
    Tanh,
}

impl Activation {
    /// Applies the function in place.
    pub(crate) fn apply(self, values: &mut [f32]) {
        match self {
            Self::Identity => {}
            Self::Relu => wide(|| values.iter_mut().for_each(|v| *v = relu(*v))),
            Self::Elu => wide(|| values.iter_mut().for_each(|v| *v = elu(*v))),
            Self::Tanh => wide(|| values.iter_mut().for_each(|v| *v = math::tanh(*v))),
        }
    }

    /// Multiplies gradients by the derivative. For all of these functions, it can be computed from their output.
    pub(crate) fn pull_back(self, gradient: &mut [f32], outputs: &[f32]) {
        let pairs = gradient.iter_mut().zip(outputs);
        match self {
            Self::Identity => {}
            Self::Relu => wide(|| pairs.for_each(|(g, y)| *g = if *y > 0.0 { *g } else { 0.0 })),
            Self::Elu => wide(|| pairs.for_each(|(g, y)| *g = if *y > 0.0 { *g } else { *g * (y + 1.0) })),
            Self::Tanh => wide(|| pairs.for_each(|(g, y)| *g *= 1.0 - y * y)),
        }
    }
}

// Both functions propagate NaN, which `max` and `min` would hide.

#[inline(always)]
fn relu(x: f32) -> f32 {
    if 0.0 > x { 0.0 } else { x }
}

#[inline(always)]
fn elu(x: f32) -> f32 {
    let below = math::exp(if x > 0.0 { 0.0 } else { x }) - 1.0;
    if x > 0.0 { x } else { below }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activations_propagate_nan() {
        for activation in [Activation::Identity, Activation::Relu, Activation::Elu, Activation::Tanh] {
            let mut values = [f32::NAN, -1.0, 2.0];
            activation.apply(&mut values);
            assert!(values[0].is_nan() && values[1] <= 0.0 && values[2] > 0.9, "{activation:?}: {values:?}");
        }
    }
}
