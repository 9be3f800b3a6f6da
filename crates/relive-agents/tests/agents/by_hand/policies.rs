//! Networks of agents with an array of numbers as action, and their inputs.

use relive_env::EnvironmentSpec;
use relive_nn::{Activation, Key, Layout, LinearInit, Network, NetworkBuilder};
use relive_tensor::Nest;

use super::numbers::{Learned, ParamsView, Rule, log_normal, mean, softplus};
use super::seen::{Experience, Transition, width};

/// The kind of the hidden layers.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Body {
    Relu,
    LayerNorm,
}

/// The initialization of the last layer: like the other layers, or near zero.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum LastLayerInit {
    Linear,
    NearZero,
}

/// A network with one hidden layer.
#[derive(Clone, Copy)]
pub(crate) struct Shape<'a> {
    pub(crate) body: Body,
    pub(crate) hidden: &'a [usize],
    pub(crate) end: LastLayerInit,
}

impl Shape<'_> {
    fn add(self, layout: &mut Layout, name: &str, inputs: usize, outputs: usize) {
        let builder = Network::builder(layout, name, inputs);
        let body: NetworkBuilder<'_> = match self.body {
            Body::Relu => builder.init(LinearInit::PyTorch).mlp(self.hidden, Activation::Relu),
            Body::LayerNorm => builder.layer_norm_mlp(self.hidden, true),
        };
        let end = match self.end {
            LastLayerInit::Linear => body.linear(outputs),
            LastLayerInit::NearZero => body.init(LinearInit::NearZero { scale: 1e-4 }).linear(outputs),
        };
        end.build();
    }
}

/// The observations and actions of an environment.
#[derive(Clone)]
pub(crate) struct EnvironmentSpaces {
    pub(crate) width: usize,
    bounds: [f64; 2],
}

impl EnvironmentSpaces {
    /// Returns the world of an environment with one bounded number as action.
    pub(crate) fn of(spec: &EnvironmentSpec) -> EnvironmentSpaces {
        let Nest::Leaf(leaf) = &spec.actions else { panic!("several actions") };
        let (low, high) = leaf.bounds(0);
        EnvironmentSpaces { width: width(spec), bounds: [low, high] }
    }

    pub(crate) fn policy(&self, shape: Shape<'_>, outputs: usize, key: Key, rate: f32) -> Learned {
        let mut layout = Layout::new();
        shape.add(&mut layout, "policy", self.width, outputs);
        Learned::new(&layout.init(key.child("policy")), Rule::adam(rate))
    }

    pub(crate) fn critics(
        &self,
        shape: Shape<'_>,
        (count, outputs): (usize, usize),
        key: Key,
        rate: f32,
    ) -> Learned {
        let mut layout = Layout::new();
        for number in 1..=count {
            shape.add(&mut layout, &format!("critic_{number}"), self.width + 1, outputs);
        }
        Learned::new(&layout.init(key.child("critics")), Rule::adam(rate))
    }

    pub(crate) fn value(&self, shape: Shape<'_>, key: Key, rate: f32) -> Learned {
        let mut layout = Layout::new();
        shape.add(&mut layout, "value", self.width, 1);
        Learned::new(&layout.init(key.child("value")), Rule::adam(rate))
    }

    /// Returns a batch with actions in −1..1 and normalized observations.
    pub(crate) fn transitions(
        &self,
        experience: &Experience<'_>,
        normalizer: Option<&mut ObservationNormalizer>,
    ) -> Vec<Transition> {
        let mut batch = experience.transitions();
        let [low, high] = self.bounds;
        for step in &mut batch {
            step.done[0] = (2.0 * (step.done[0] - low) / (high - low) - 1.0).clamp(-1.0, 1.0);
        }
        if let Some(normalizer) = normalizer {
            normalizer.see(&mut batch);
        }
        batch
    }
}

/// Returns the outputs of the critic with the given number for an action.
pub(crate) fn critic_outputs(at: ParamsView<'_>, number: usize, seen: &[f64], action: f64) -> Vec<f64> {
    let row = [seen, &[action]].concat();
    at.layers(&format!("critic_{number}"), &row, f64_relu)
}

/// Returns the output of a critic that represents returns by their mean.
pub(crate) fn value_of(at: ParamsView<'_>, number: usize, seen: &[f64], action: f64) -> f64 {
    critic_outputs(at, number, seen, action)[0]
}

fn f64_relu(x: f64) -> f64 {
    x.max(0.0)
}

/// Shifts and scales observations by the statistics of all batches so far.
#[derive(Default)]
pub(crate) struct ObservationNormalizer(Vec<Vec<f64>>);

impl ObservationNormalizer {
    fn see(&mut self, batch: &mut [Transition]) {
        self.0.extend(batch.iter().map(|step| step.seen.clone()));
        for column in 0..batch[0].seen.len() {
            let of_column = || self.0.iter().map(|row| row[column]);
            let center = mean(of_column());
            let deviation = (mean(of_column().map(|x| (x - center).powi(2))) + 1e-8).sqrt();
            for step in batch.iter_mut() {
                for x in [&mut step.seen[column], &mut step.next[column]] {
                    *x = ((*x - center) / deviation).clamp(-10.0, 10.0);
                }
            }
        }
    }
}

/// A normal distribution, given by two outputs: its mean, and a raw number for its standard deviation.
#[derive(Clone, Copy)]
pub(crate) struct Normal {
    pub(crate) mean: f64,
    pub(crate) stddev: f64,
}

impl Normal {
    /// Returns a distribution with the standard deviation `softplus(raw)·begin/ln 2 + least`, and a mean that is
    /// squashed by tanh if `is_squashed`.
    pub(crate) fn by(outputs: &[f64], begin: f32, least: f32, is_squashed: bool) -> Normal {
        let stddev = softplus(outputs[1]) * f64::from(begin) / std::f64::consts::LN_2 + f64::from(least);
        Normal { mean: if is_squashed { outputs[0].tanh() } else { outputs[0] }, stddev }
    }

    /// Returns ln π.
    pub(crate) fn log_density(self, action: f64) -> f64 {
        log_normal(action, self.mean, self.stddev)
    }
}
