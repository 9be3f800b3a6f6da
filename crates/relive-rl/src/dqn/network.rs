//! The network of action values.

use relive_env::EnvironmentSpec;
use relive_nn::{Activation, Key, Layout, Network, Params};

use super::loss::Rule;
use super::{DqnConfig, NetworkShape};
use crate::Result;
use crate::features::Features;

/// From an observation to a value for each action, or to a distribution of returns for each.
#[derive(Debug, Clone)]
pub struct QNetwork {
    pub(crate) features: Features,
    pub(crate) network: Network,
    pub(super) rule: Rule,
    shape: NetworkShape,
    layout: Layout,
}

impl QNetwork {
    /// A network for an environment with one discrete action.
    ///
    /// # Errors
    /// The environment has other actions, or observations that are not numbers.
    pub fn new(spec: &EnvironmentSpec, config: &DqnConfig) -> Result<QNetwork> {
        QNetwork::of_shape(NetworkShape::new(spec, config)?)
    }

    /// A network of a shape.
    ///
    /// # Errors
    /// Observations that are not numbers, and sizes that no network has.
    pub fn of_shape(shape: NetworkShape) -> Result<QNetwork> {
        let features = Features::of_leaves(&shape.observations)?;
        shape.check(features.width())?;
        let rule = Rule::new(&shape);
        let (actions, atoms) = (shape.actions, rule.atoms());
        let mut layout = Layout::new();
        let builder = Network::builder(&mut layout, "q", features.width());
        let network = match (shape.duelling, shape.hidden.split_last()) {
            (true, Some((head, torso))) => {
                builder.mlp(torso, Activation::Relu).duelling_atoms(&[*head], actions, atoms)
            }
            (true, None) => builder.duelling_atoms(&[], actions, atoms),
            (false, _) => builder.mlp(&shape.hidden, Activation::Relu).linear(actions * atoms),
        };
        let network = network.build();
        Ok(QNetwork { features, network, rule, shape, layout })
    }

    /// What it is made for and of.
    #[must_use]
    pub fn shape(&self) -> &NetworkShape {
        &self.shape
    }

    /// Parameters to begin with.
    #[must_use]
    pub fn init(&self, key: Key) -> Params {
        self.layout.clone().init(key)
    }

    /// How many numbers its parameters are.
    pub(super) fn parameters(&self) -> usize {
        self.layout.len()
    }

    /// Number of actions.
    #[must_use]
    pub fn num_actions(&self) -> usize {
        self.shape.actions
    }
}
