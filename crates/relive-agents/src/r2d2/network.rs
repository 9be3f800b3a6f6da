//! The recurrent network for action values.

use relive_env::EnvironmentSpec;
use relive_nn::{Activation, Key, Layout, Lstm, Network, Params, RecurrentNetwork};
use relive_rl::Result;

use super::R2d2Config;
use crate::actions::Discrete;
use crate::settings::fits;
use crate::torso::Torso;

/// A network that maps the observations so far to a value for each action.
#[derive(Debug, Clone)]
pub(super) struct QMemory {
    pub(super) torso: Torso,
    pub(super) actions: Discrete,
    pub(super) network: RecurrentNetwork,
}

impl QMemory {
    /// Creates the network for an environment with one discrete action, and its initial parameters.
    pub(super) fn new(config: &R2d2Config, spec: &EnvironmentSpec, key: Key) -> Result<(QMemory, Params)> {
        let (torso, actions) = (Torso::of(spec)?, Discrete::expect(spec)?);
        let (units, count) = (config.lstm_units, actions.count);
        torso.fits(&config.hidden, units.saturating_mul(4))?;
        fits(units, &config.head, count.saturating_add(1).max(units.saturating_mul(4)))?;
        let mut layout = Layout::new();
        let front = torso.layers(Network::builder(&mut layout, "torso", torso.inputs()));
        let front = front.mlp(&config.hidden, Activation::Relu).build();
        let memory = Lstm::new(&mut layout, "memory", front.outputs(), units);
        let head = Network::builder(&mut layout, "q", units);
        let head = match config.duelling {
            true => head.duelling(&config.head, count),
            false => head.mlp(&config.head, Activation::Relu).linear(count),
        };
        let network = RecurrentNetwork::new(front, memory, head.build());
        Ok((QMemory { torso, actions, network }, layout.init(key)))
    }
}
