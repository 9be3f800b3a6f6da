//! The network of action values.

use relive_env::EnvironmentSpec;
use relive_nn::{Activation, Key, Layout, Network, Params};
use relive_rl::Result;

use super::DqnConfig;
use super::loss::Rule;
use super::noise::Noise;
use crate::actions::Discrete;
use crate::torso::Torso;

/// From an observation to a value for each action, or to a distribution of returns for each.
#[derive(Debug, Clone)]
pub(super) struct QNetwork {
    pub(super) torso: Torso,
    pub(super) actions: Discrete,
    pub(super) network: Network,
    pub(super) rule: Rule,
    /// On its weights, if the network is noisy.
    pub(super) noise: Option<Noise>,
}

impl QNetwork {
    /// The network for an environment with one discrete action, and its parameters to begin with.
    pub(super) fn new(config: &DqnConfig, spec: &EnvironmentSpec, key: Key) -> Result<(QNetwork, Params)> {
        let (torso, actions) = (Torso::of(spec)?, Discrete::expect(spec)?);
        let rule = Rule::new(config);
        let (count, atoms, hidden) = (actions.count, rule.atoms(), &config.hidden);
        torso.fits(hidden, count.saturating_add(1).saturating_mul(atoms))?;
        let mut layout = Layout::new();
        let builder = torso.layers(Network::builder(&mut layout, "q", torso.inputs()));
        let network = match (config.duelling, hidden.split_last()) {
            (true, Some((head, before))) => {
                builder.mlp(before, Activation::Relu).duelling_atoms(&[*head], count, atoms)
            }
            (true, None) => builder.duelling_atoms(&[], count, atoms),
            (false, _) => builder.mlp(hidden, Activation::Relu).linear(count * atoms),
        };
        let network = network.build();
        let noise = config.noisy.then(|| Noise::add_to(&mut layout));
        Ok((QNetwork { torso, actions, network, rule, noise }, layout.init(key)))
    }
}
