//! The network of action values, with a memory.

use relive_env::EnvironmentSpec;
use relive_nn::{Activation, Key, Layout, Lstm, Network, Params, RecurrentNetwork};
use relive_rl::{Features, Result};

use super::R2d2Config;
use crate::actions::Discrete;
use crate::settings::fits;

/// From what was seen so far to a value for each action.
#[derive(Debug, Clone)]
pub(super) struct QMemory {
    pub(super) features: Features,
    pub(super) actions: Discrete,
    pub(super) network: RecurrentNetwork,
}

impl QMemory {
    /// The network for an environment with one discrete action, and its parameters to begin with.
    pub(super) fn new(config: &R2d2Config, spec: &EnvironmentSpec, key: Key) -> Result<(QMemory, Params)> {
        let (features, actions) = (Features::of(&spec.observations)?, Discrete::expect(spec)?);
        let (units, count) = (config.lstm_units, actions.count);
        fits(features.width(), &config.hidden, units.saturating_mul(4))?;
        fits(units, &config.head, count.saturating_add(1).max(units.saturating_mul(4)))?;
        let mut layout = Layout::new();
        let torso = Network::builder(&mut layout, "torso", features.width());
        let torso = torso.mlp(&config.hidden, Activation::Relu).build();
        let memory = Lstm::new(&mut layout, "memory", torso.outputs(), units);
        let head = Network::builder(&mut layout, "q", units);
        let head = match config.duelling {
            true => head.duelling(&config.head, count),
            false => head.mlp(&config.head, Activation::Relu).linear(count),
        };
        let network = RecurrentNetwork::new(torso, memory, head.build());
        Ok((QMemory { features, actions, network }, layout.init(key)))
    }
}
