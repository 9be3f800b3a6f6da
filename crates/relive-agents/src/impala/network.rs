//! One network for the policy and the value, with or without a recurrent layer.

use std::ops::Range;

use relive_env::EnvironmentSpec;
use relive_nn::{
    Activation, Init, Inputs, Key, Layout, LinearInit, Lstm, LstmState, Network, Params, RecurrentNetwork,
    Steps,
};
use relive_rl::Result;

use super::settings::Settings;
use crate::actor_critic::Head;
use crate::settings::fits;
use crate::torso::Torso;

/// A network that maps observations to the parameters of the action distribution, followed by the value.
#[derive(Debug, Clone)]
pub(super) struct VTraceNetwork {
    pub(super) torso: Torso,
    pub(super) head: Head,
    pub(super) body: Body,
    /// The logarithms of the standard deviations, for a normal head.
    pub(super) log_std: Range<usize>,
}

/// The layers.
#[derive(Debug, Clone)]
pub(super) enum Body {
    Plain(Network),
    Recurrent(RecurrentNetwork),
}

impl VTraceNetwork {
    /// Creates the network for an environment, and its initial parameters.
    pub(super) fn new(
        settings: &Settings,
        spec: &EnvironmentSpec,
        key: Key,
    ) -> Result<(VTraceNetwork, Params)> {
        let (torso, head) = (Torso::of(spec)?, Head::of(spec)?);
        let Settings { hidden, lstm_units: units, .. } = settings;
        let outputs = head.outputs().saturating_add(1);
        torso.fits(hidden, outputs.max(units.saturating_mul(4)))?;
        let mut layout = Layout::new();
        let builder = Network::builder(&mut layout, "torso", torso.inputs())
            .init(LinearInit::Orthogonal { gain: std::f32::consts::SQRT_2 });
        let front = torso.layers(builder).mlp(hidden, Activation::Tanh);
        let last = LinearInit::Orthogonal { gain: 0.01 };
        let body = if *units == 0 {
            Body::Plain(front.init(last).linear(outputs).build())
        } else {
            fits(*units, &[*units], units.saturating_mul(4))?;
            let front = front.build();
            let memory = Lstm::new(&mut layout, "memory", front.outputs(), *units);
            let head = Network::builder(&mut layout, "head", *units).init(last).linear(outputs).build();
            Body::Recurrent(RecurrentNetwork::new(front, memory, head))
        };
        let numbers = if matches!(head, Head::Normal { .. }) { head.outputs() } else { 0 };
        let log_std = layout.add("log_std", &[numbers], Init::Constant(0.0));
        Ok((VTraceNetwork { torso, head, body, log_std }, layout.init(key)))
    }

    /// Returns the number of outputs for an observation; the last is the value.
    pub(super) fn outputs(&self) -> usize {
        self.head.outputs() + 1
    }

    /// Returns the recurrent part, if there is one.
    pub(super) fn memory(&self) -> Option<&RecurrentNetwork> {
        match &self.body {
            Body::Plain(_) => None,
            Body::Recurrent(network) => Some(network),
        }
    }
}

impl Body {
    /// Computes the gradient of a loss on the outputs, for rows in time-major order; a recurrent network starts from a
    /// given state.
    pub(super) fn gradient_into<R>(
        &self,
        params: &Params,
        (x, steps, state): (Inputs<'_>, Steps<'_>, &LstmState),
        gradient: &mut [f32],
        loss: impl FnOnce(&[f32], &mut [f32]) -> R,
    ) -> R {
        match self {
            Body::Plain(network) => network.gradient_into(params, x, gradient, loss),
            Body::Recurrent(network) => network.gradient_into(params, (x, steps, state), gradient, loss),
        }
    }
}
