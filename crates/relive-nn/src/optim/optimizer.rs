use pulp::NullaryFnOnce;

use super::clip::{clip_factor, global_norm};
use super::kinds::{Adam, Kind, RmsProp, Sgd, Step};
use crate::kernels::wide;
use crate::params::Params;

/// Updates parameters with gradients, and keeps its state between steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Optimizer {
    pub(super) kind: Kind,
    max_gradient_norm: Option<f32>,
    pub(super) steps: u64,
    pub(super) first: Vec<f32>,
    pub(super) second: Vec<f32>,
}

impl Optimizer {
    /// Creates Adam for parameters with the given layout.
    pub fn adam(adam: Adam, params: &Params) -> Self {
        Self::new(Kind::Adam(adam), params)
    }

    /// Creates RMSProp for parameters with the given layout.
    pub fn rms_prop(rms_prop: RmsProp, params: &Params) -> Self {
        Self::new(Kind::RmsProp(rms_prop), params)
    }

    /// Creates gradient descent for parameters with the given layout.
    pub fn sgd(sgd: Sgd, params: &Params) -> Self {
        Self::new(Kind::Sgd(sgd), params)
    }

    fn new(kind: Kind, params: &Params) -> Self {
        let len = params.values().len();
        let state = |kept| if kept { vec![0.0; len] } else { Vec::new() };
        let (first, second) = kind.keeps();
        Self { kind, max_gradient_norm: None, steps: 0, first: state(first), second: state(second) }
    }

    /// Bounds the global norm of each gradient over all leaves. `None` means no bound.
    #[must_use]
    pub fn max_gradient_norm(self, norm: impl Into<Option<f32>>) -> Self {
        Self { max_gradient_norm: norm.into(), ..self }
    }

    /// Sets the step size of all further steps, for example according to a schedule.
    pub fn set_learning_rate(&mut self, rate: f32) {
        match &mut self.kind {
            Kind::Adam(adam) => adam.learning_rate = rate,
            Kind::RmsProp(rms_prop) => rms_prop.learning_rate = rate,
            Kind::Sgd(sgd) => sgd.learning_rate = rate,
        }
    }

    /// Returns the number of steps so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Updates the parameters in the direction opposite to a gradient, and increments their version. Returns the
    /// gradient's norm before clipping.
    ///
    /// # Panics
    /// If parameters or gradient do not have the length for which the optimizer was created.
    pub fn step(&mut self, params: &mut Params, gradient: &[f32]) -> f32 {
        let len = params.values().len();
        assert_eq!(gradient.len(), len, "a gradient for other parameters");
        assert!(self.fits(len), "the optimizer was created for a different number of parameters than {len}");
        self.steps += 1;
        let norm = global_norm(gradient);
        let factor = self.max_gradient_norm.map_or(1.0, |max| clip_factor(norm, max));
        self.apply(params.values_mut(), gradient, factor);
        params.touch();
        norm
    }

    fn fits(&self, len: usize) -> bool {
        let (first, second) = self.kind.keeps();
        (!first || self.first.len() == len) && (!second || self.second.len() == len)
    }

    fn apply(&mut self, params: &mut [f32], gradient: &[f32], factor: f32) {
        let (first, second) = (&mut self.first[..], &mut self.second[..]);
        let step = Step { params, gradient, factor, first, second, number: self.steps };
        wide(StepOf(self.kind, step));
    }
}

/// A step, in the form that [`wide`] runs. The compiler would not inline a closure of this size into the function that
/// uses the wide instructions.
struct StepOf<'a>(Kind, Step<'a>);

impl NullaryFnOnce for StepOf<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.0.step(self.1);
    }
}
