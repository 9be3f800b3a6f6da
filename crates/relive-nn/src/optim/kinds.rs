/// Adam (Kingma and Ba 2015) with bias correction, and with ε added to the root: `θ −= α·m̂/(√v̂ + ε)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Adam {
    /// The step size α.
    pub learning_rate: f32,
    /// The decay of the mean.
    pub beta1: f32,
    /// The decay of the mean square.
    pub beta2: f32,
    /// The constant ε.
    pub epsilon: f32,
}

impl Default for Adam {
    /// α = 1e-3, β = 0.9 and 0.999, ε = 1e-8.
    fn default() -> Self {
        Self { learning_rate: 1e-3, beta1: 0.9, beta2: 0.999, epsilon: 1e-8 }
    }
}

/// RMSProp (Tieleman and Hinton 2012) as in PyTorch: `v = ρv + (1−ρ)g²`, `θ −= α·g/(√v + ε)`, with optional momentum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RmsProp {
    /// The step size α.
    pub learning_rate: f32,
    /// The decay ρ.
    pub decay: f32,
    /// The constant ε.
    pub epsilon: f32,
    /// The momentum of the steps; 0 for none.
    pub momentum: f32,
}

impl Default for RmsProp {
    /// α = 1e-3, ρ = 0.99, ε = 1e-8, no momentum.
    fn default() -> Self {
        Self { learning_rate: 1e-3, decay: 0.99, epsilon: 1e-8, momentum: 0.0 }
    }
}

/// Gradient descent with optional momentum: `m = μm + g`, `θ −= α·m`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sgd {
    /// The step size α.
    pub learning_rate: f32,
    /// The momentum μ; 0 for none.
    pub momentum: f32,
}

impl Default for Sgd {
    /// α = 1e-3, no momentum.
    fn default() -> Self {
        Self { learning_rate: 1e-3, momentum: 0.0 }
    }
}

/// The kind of an optimizer, with its settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Adam(Adam),
    RmsProp(RmsProp),
    Sgd(Sgd),
}

/// The arrays used in one step.
#[derive(Debug)]
pub(crate) struct Step<'a> {
    pub(crate) params: &'a mut [f32],
    pub(crate) gradient: &'a [f32],
    /// The factor by which the gradient is multiplied.
    pub(crate) factor: f32,
    /// The running means of gradients or steps, and of squares.
    pub(crate) first: &'a mut [f32],
    pub(crate) second: &'a mut [f32],
    /// The number of the step, counted from 1.
    pub(crate) number: u64,
}

impl Kind {
    /// Returns whether the optimizer keeps a first number and a second number for each parameter.
    pub(crate) fn keeps(self) -> (bool, bool) {
        match self {
            Self::Adam(_) => (true, true),
            Self::RmsProp(RmsProp { momentum, .. }) => (momentum != 0.0, true),
            Self::Sgd(Sgd { momentum, .. }) => (momentum != 0.0, false),
        }
    }

    /// Identifies the kind of a saved state.
    pub(crate) fn tag(self) -> u32 {
        match self {
            Self::Adam(_) => 1,
            Self::RmsProp(_) => 2,
            Self::Sgd(_) => 3,
        }
    }

    #[inline(always)]
    pub(crate) fn step(self, step: Step<'_>) {
        match self {
            Self::Adam(adam) => adam.step(step),
            Self::RmsProp(rms_prop) => rms_prop.step(step),
            Self::Sgd(sgd) => sgd.step(step),
        }
    }
}

impl Adam {
    #[inline(always)]
    fn step(self, step: Step<'_>) {
        let corrected = |beta: f32| power_below_one(beta, step.number);
        let rate = self.learning_rate / corrected(self.beta1);
        let scale = 1.0 / corrected(self.beta2).sqrt();
        let moments = step.first.iter_mut().zip(step.second);
        for ((p, g), (m, v)) in step.params.iter_mut().zip(step.gradient).zip(moments) {
            let g = g * step.factor;
            *m = self.beta1 * *m + (1.0 - self.beta1) * g;
            *v = self.beta2 * *v + (1.0 - self.beta2) * g * g;
            *p -= rate * *m / (v.sqrt() * scale + self.epsilon);
        }
    }
}

/// 1 − βⁿ, computed in f64 because f32 loses digits at the first steps.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "back to what the step is in"
)]
fn power_below_one(beta: f32, number: u64) -> f32 {
    (1.0 - f64::from(beta).powf(number as f64)) as f32
}

impl RmsProp {
    #[inline(always)]
    fn step(self, step: Step<'_>) {
        let squares = step.gradient.iter().zip(step.second.iter_mut());
        if self.momentum == 0.0 {
            for (p, (g, v)) in step.params.iter_mut().zip(squares) {
                *p -= self.learning_rate * self.scaled(g * step.factor, v);
            }
        } else {
            for ((p, (g, v)), m) in step.params.iter_mut().zip(squares).zip(step.first) {
                *m = self.momentum * *m + self.scaled(g * step.factor, v);
                *p -= self.learning_rate * *m;
            }
        }
    }

    #[inline(always)]
    fn scaled(self, g: f32, v: &mut f32) -> f32 {
        *v = self.decay * *v + (1.0 - self.decay) * g * g;
        g / (v.sqrt() + self.epsilon)
    }
}

impl Sgd {
    #[inline(always)]
    fn step(self, step: Step<'_>) {
        if self.momentum == 0.0 {
            let rate = self.learning_rate * step.factor;
            step.params.iter_mut().zip(step.gradient).for_each(|(p, g)| *p -= rate * g);
        } else {
            for ((p, g), m) in step.params.iter_mut().zip(step.gradient).zip(step.first) {
                *m = self.momentum * *m + g * step.factor;
                *p -= self.learning_rate * *m;
            }
        }
    }
}
