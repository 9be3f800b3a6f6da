//! Networks built from their sizes.

use relive_nn::{Activation, Key, Layout, LinearInit, Network, Params};
use relive_rl::Result;

use super::Spaces;
use crate::settings::fits;

/// The variance of the weights multiplied by the number of inputs, for a last layer whose outputs start near zero.
const NEAR_ZERO: f32 = 1e-4;

/// The hidden layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    /// Linear layers with ReLU, initialized as in PyTorch.
    Relu,
    /// Acme's LayerNormMLP: a linear layer, layer normalization, tanh, then linear layers with ELU.
    LayerNorm,
}

/// The last layer of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// A linear layer, initialized like the other layers.
    Linear,
    /// A linear layer whose outputs start near zero.
    NearZero,
    /// A linear layer whose outputs start near zero, followed by tanh. The result is an action.
    Action,
}

/// The layers of an agent's networks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layers<'a> {
    pub(crate) body: Body,
    pub(crate) hidden: &'a [usize],
}

impl Layers<'_> {
    /// Adds a network to a layout.
    ///
    /// # Errors
    /// The network cannot be built.
    pub(crate) fn network(
        self,
        layout: &mut Layout,
        name: &str,
        (inputs, outputs): (usize, usize),
        role: Role,
    ) -> Result<Network> {
        fits(inputs, self.hidden, outputs)?;
        let begun = Network::builder(layout, name, inputs);
        let body = match self.body {
            Body::LayerNorm if !self.hidden.is_empty() => begun.layer_norm_mlp(self.hidden, true),
            Body::LayerNorm => begun,
            Body::Relu => begun.init(LinearInit::PyTorch).mlp(self.hidden, Activation::Relu),
        };
        let near_zero = LinearInit::NearZero { scale: NEAR_ZERO };
        let network = match role {
            Role::Linear => body.linear(outputs),
            Role::NearZero => body.init(near_zero).linear(outputs),
            Role::Action => body.init(near_zero).linear(outputs).activation(Activation::Tanh),
        };
        Ok(network.build())
    }

    /// Creates a network named `policy` over observations, and its initial parameters.
    ///
    /// # Errors
    /// The network cannot be built.
    pub(crate) fn policy(
        self,
        spaces: &Spaces,
        outputs: usize,
        role: Role,
        key: Key,
    ) -> Result<(Network, Params)> {
        let mut layout = Layout::new();
        let network = self.network(&mut layout, "policy", (spaces.width(), outputs), role)?;
        Ok((network, layout.init(key.child("policy"))))
    }
}
