//! The network for action values.

use relive_env::EnvironmentSpec;
use relive_nn::{Activation, Inputs, Key, Layout, Network, Params, Scratch};
use relive_rl::Result;

use super::implicit::{Buffers, Fractions, Implicit};
use super::loss::Rule;
use super::noise::{Noise, initialization};
use super::{DqnConfig, DqnLoss};
use crate::actions::Discrete;
use crate::torso::Torso;

/// A network that maps an observation to a value, or to a distribution of returns, for each action.
#[derive(Debug, Clone)]
pub(super) struct QNetwork {
    pub(super) torso: Torso,
    pub(super) actions: Discrete,
    body: Body,
    pub(super) rule: Rule,
    /// The noise on the network's weights, if the network is noisy.
    pub(super) noise: Option<Noise>,
}

#[derive(Debug, Clone)]
enum Body {
    Plain(Network),
    Implicit(Box<Implicit>),
}

/// Reused memory of [`QNetwork`].
#[derive(Debug, Default, Clone)]
pub(super) struct QScratch {
    plain: Scratch,
    implicit: Buffers,
}

impl QNetwork {
    /// Creates the network for an environment with one discrete action, and its initial parameters.
    pub(super) fn new(config: &DqnConfig, spec: &EnvironmentSpec, key: Key) -> Result<(QNetwork, Params)> {
        let (torso, actions) = (Torso::of(spec)?, Discrete::expect(spec)?);
        let rule = Rule::new(config);
        let (count, atoms) = (actions.count, rule.atoms());
        torso.fits(&config.hidden, count.saturating_add(1).saturating_mul(atoms))?;
        let mut layout = Layout::new();
        let body = match config.loss {
            DqnLoss::ImplicitQuantile => {
                Body::Implicit(Box::new(Implicit::add_to(&mut layout, &torso, config, count)))
            }
            _ => Body::Plain(plain(&mut layout, &torso, config, (count, atoms))),
        };
        let noise = config.noisy.then(|| Noise::add_to(&mut layout));
        Ok((QNetwork { torso, actions, body, rule, noise }, layout.init(key)))
    }

    /// Returns the number of values in an observation.
    pub(super) fn inputs(&self) -> usize {
        match &self.body {
            Body::Plain(network) => network.inputs(),
            Body::Implicit(network) => network.inputs(),
        }
    }

    /// Returns the outputs for a batch; for implicit quantiles, at these fractions.
    pub(super) fn infer<'s>(
        &self,
        params: &Params,
        seen: Inputs<'_>,
        fractions: Fractions<'_>,
        scratch: &'s mut QScratch,
    ) -> &'s [f32] {
        match &self.body {
            Body::Plain(network) => network.infer(params, seen, &mut scratch.plain),
            Body::Implicit(network) => network.infer(params, seen, fractions, &mut scratch.implicit),
        }
    }

    /// Returns the outputs that choose actions. A row's outputs do not depend on the number of rows.
    pub(super) fn infer_each<'s>(
        &self,
        params: &Params,
        seen: Inputs<'_>,
        scratch: &'s mut QScratch,
    ) -> &'s [f32] {
        match &self.body {
            Body::Plain(network) => network.infer_each(params, seen, &mut scratch.plain),
            Body::Implicit(network) => network.infer_each(params, seen, &mut scratch.implicit),
        }
    }

    /// Returns a loss of the outputs, and its gradient with respect to all parameters.
    pub(super) fn gradient<R>(
        &self,
        params: &Params,
        seen: Inputs<'_>,
        taus: &[f32],
        scratch: &mut QScratch,
        loss: impl FnOnce(&[f32], &mut [f32]) -> R,
    ) -> (R, Vec<f32>) {
        match &self.body {
            Body::Plain(network) => network.gradient(params, seen, loss),
            Body::Implicit(network) => network.gradient(params, seen, taus, &mut scratch.implicit, loss),
        }
    }
}

fn plain(layout: &mut Layout, torso: &Torso, config: &DqnConfig, (count, atoms): (usize, usize)) -> Network {
    let hidden = &config.hidden;
    let builder = torso.layers(Network::builder(layout, "q", torso.inputs()));
    let builder = builder.init(initialization(config.noisy));
    let network = match (config.duelling, hidden.split_last()) {
        (true, Some((head, before))) => {
            builder.mlp(before, Activation::Relu).duelling_atoms(&[*head], count, atoms)
        }
        (true, None) => builder.duelling_atoms(&[], count, atoms),
        (false, _) => builder.mlp(hidden, Activation::Relu).linear(count * atoms),
    };
    network.build()
}

#[cfg(test)]
mod tests {
    use relive_env::ArraySpec;
    use relive_tensor::DType;

    use super::*;

    /// Returns the initial parameters of a network for four numbers and two actions.
    fn params(loss: DqnLoss, noisy: bool) -> Result<Params> {
        let observations = ArraySpec::new("", DType::Float32, [4]);
        let spec = EnvironmentSpec::new(observations, ArraySpec::discrete("", 2));
        let config = DqnConfig { loss, noisy, duelling: true, ..DqnConfig::default() };
        QNetwork::new(&config, &spec, Key::from_seed(1)).map(|(_, params)| params)
    }

    #[test]
    #[expect(clippy::cast_precision_loss, reason = "inputs of a layer")]
    fn the_means_of_noisy_layers_are_uniform() {
        for loss in [DqnLoss::Categorical, DqnLoss::ImplicitQuantile] {
            let params = params(loss, true).unwrap();
            let leaves = params.layout().leaves();
            let means: Vec<_> = leaves.iter().filter(|leaf| !leaf.name().ends_with("/sigma")).collect();
            for pair in means.chunks_exact(2) {
                let bound = 1.0 / (pair[0].shape()[0] as f32).sqrt();
                for leaf in pair {
                    let values = &params.values()[leaf.range()];
                    let largest = values.iter().fold(0.0, |most: f32, value| most.max(value.abs()));
                    let at_least = if values.len() >= 50 { 0.9 * bound } else { 0.0 };
                    assert!(largest <= bound && largest > at_least, "{}: {largest} {bound}", leaf.name());
                }
            }
        }
        let silent = params(DqnLoss::Categorical, false).unwrap();
        let mut biases = silent.layout().leaves().iter().filter(|leaf| leaf.name().ends_with("/b"));
        assert!(biases.all(|leaf| silent.values()[leaf.range()].iter().all(|value| *value == 0.0)));
    }
}
