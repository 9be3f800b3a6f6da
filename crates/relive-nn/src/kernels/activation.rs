use super::{math, wide};

/// What follows a layer's sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Activation {
    /// Nothing.
    #[default]
    Identity,
    /// max(x, 0).
    Relu,
    /// x above zero, eˣ − 1 below (Clevert et al. 2016).
    Elu,
    /// The hyperbolic tangent.
    Tanh,
}

impl Activation {
    /// Replaces sums by what follows from them.
    pub(crate) fn apply(self, values: &mut [f32]) {
        match self {
            Self::Identity => {}
            Self::Relu => wide(|| values.iter_mut().for_each(|v| *v = v.max(0.0))),
            Self::Elu => wide(|| values.iter_mut().for_each(|v| *v = elu(*v))),
            Self::Tanh => wide(|| values.iter_mut().for_each(|v| *v = math::tanh(*v))),
        }
    }

    /// Multiplies gradients by the derivative, which for each of these follows from the output.
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

#[inline(always)]
fn elu(x: f32) -> f32 {
    let below = math::exp(x.min(0.0)) - 1.0;
    if x > 0.0 { x } else { below }
}
