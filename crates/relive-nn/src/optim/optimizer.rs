use pulp::NullaryFnOnce;

use super::clip::{clip_factor, global_norm};
use super::kinds::{Adam, Kind, RmsProp, Sgd, Step};
use crate::kernels::wide;
use crate::params::Params;

/// Changes parameters by gradients, and keeps what it needs for that from step to step.
#[derive(Debug, Clone, PartialEq)]
pub struct Optimizer {
    pub(super) kind: Kind,
    max_gradient_norm: Option<f32>,
    pub(super) steps: u64,
    pub(super) first: Vec<f32>,
    pub(super) second: Vec<f32>,
}

impl Optimizer {
    /// Adam for parameters of this layout.
    pub fn adam(adam: Adam, params: &Params) -> Self {
        Self::new(Kind::Adam(adam), params)
    }

    /// RMSProp for parameters of this layout.
    pub fn rms_prop(rms_prop: RmsProp, params: &Params) -> Self {
        Self::new(Kind::RmsProp(rms_prop), params)
    }

    /// Gradient descent for parameters of this layout.
    pub fn sgd(sgd: Sgd, params: &Params) -> Self {
        Self::new(Kind::Sgd(sgd), params)
    }

    fn new(kind: Kind, params: &Params) -> Self {
        let len = params.values().len();
        let state = |kept| if kept { vec![0.0; len] } else { Vec::new() };
        let (first, second) = kind.keeps();
        Self { kind, max_gradient_norm: None, steps: 0, first: state(first), second: state(second) }
    }

    /// Shortens every gradient to at most this length, all leaves together, before it is used; not at all for `None`.
    #[must_use]
    pub fn max_gradient_norm(self, norm: impl Into<Option<f32>>) -> Self {
        Self { max_gradient_norm: norm.into(), ..self }
    }

    /// Sets the size of the steps from here on, as a schedule does.
    pub fn set_learning_rate(&mut self, rate: f32) {
        match &mut self.kind {
            Kind::Adam(adam) => adam.learning_rate = rate,
            Kind::RmsProp(rms_prop) => rms_prop.learning_rate = rate,
            Kind::Sgd(sgd) => sgd.learning_rate = rate,
        }
    }

    /// Steps so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Changes parameters against a gradient and counts their version up. Returns the gradient's length before
    /// clipping.
    ///
    /// # Panics
    /// If parameters or gradient have another number of numbers than the optimiser was made for.
    pub fn step(&mut self, params: &mut Params, gradient: &[f32]) -> f32 {
        let len = params.values().len();
        assert_eq!(gradient.len(), len, "a gradient for other parameters");
        assert!(self.fits(len), "the optimiser was made for other parameters than these {len}");
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

/// A step, as work for [`wide`]. A closure of this size would not be compiled into the function that has the wide
/// instructions.
struct StepOf<'a>(Kind, Step<'a>);

impl NullaryFnOnce for StepOf<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.0.step(self.1);
    }
}
