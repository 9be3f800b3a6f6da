//! The network of action values.

use relive_env::EnvironmentSpec;
use relive_nn::{Activation, Key, Layout, Network, Params};

use super::DqnConfig;
use crate::features::Features;
use crate::{Result, RlError};

/// From an observation to a value for each action.
#[derive(Debug, Clone)]
pub struct QNetwork {
    pub(crate) features: Features,
    pub(crate) network: Network,
    layout: Layout,
}

impl QNetwork {
    /// A network for an environment with one discrete action.
    ///
    /// # Errors
    /// The environment has other actions, or observations that are not numbers.
    pub fn new(spec: &EnvironmentSpec, config: &DqnConfig) -> Result<QNetwork> {
        let actions = spec.num_actions().ok_or_else(|| RlError::Unsuited {
            expected: "one discrete action",
            got: format!("actions of {} leaves", spec.actions.len()),
        })?;
        let actions = usize::try_from(actions).unwrap_or(usize::MAX);
        let features = Features::of(spec)?;
        let mut layout = Layout::new();
        let builder = Network::builder(&mut layout, "q", features.width());
        let network = match (config.duelling, config.hidden.split_last()) {
            (true, Some((head, torso))) => builder.mlp(torso, Activation::Relu).duelling(&[*head], actions),
            (true, None) => builder.duelling(&[], actions),
            (false, _) => builder.mlp(&config.hidden, Activation::Relu).linear(actions),
        };
        let network = network.build();
        Ok(QNetwork { features, network, layout })
    }

    /// Parameters to begin with.
    #[must_use]
    pub fn init(&self, key: Key) -> Params {
        self.layout.clone().init(key)
    }

    /// Number of actions.
    #[must_use]
    pub fn num_actions(&self) -> usize {
        self.network.outputs()
    }
}
