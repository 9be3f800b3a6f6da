//! The networks for the policy and the value.

use std::ops::Range;

use relive_env::EnvironmentSpec;
use relive_nn::{
    Activation, Init, Inputs, Key, Layout, LinearInit, Lstm, LstmState, Network, NetworkBuilder, Params,
    RecurrentNetwork, Steps,
};
use relive_rl::Result;

use super::settings::Settings;
use crate::actor_critic::Head;
use crate::settings::fits;
use crate::torso::Torso;

/// Layers that map observations to the parameters of the action distribution, followed by the value.
#[derive(Debug, Clone)]
pub(super) struct VTraceNetwork {
    pub(super) torso: Torso,
    pub(super) head: Head,
    pub(super) body: Body,
    /// The logarithms of the standard deviations, for a normal head.
    pub(super) log_std: Range<usize>,
}

/// The layers.
///
/// A network whose layers are costly, for images or with memory, serves both the policy and the value. Otherwise, the
/// two have their own layers: in common ones, the gradient of large values drowns out the policy's.
#[derive(Debug, Clone)]
pub(super) enum Body {
    Apart { policy: Network, value: Network },
    Shared(Network),
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
        let last = LinearInit::Orthogonal { gain: 0.01 };
        let body = if *units > 0 {
            fits(*units, &[*units], units.saturating_mul(4))?;
            let front = front(&mut layout, "torso", &torso, hidden).build();
            let memory = Lstm::new(&mut layout, "memory", front.outputs(), *units);
            let head = Network::builder(&mut layout, "head", *units).init(last).linear(outputs).build();
            Body::Recurrent(RecurrentNetwork::new(front, memory, head))
        } else if torso.sees_pictures() {
            Body::Shared(front(&mut layout, "torso", &torso, hidden).init(last).linear(outputs).build())
        } else {
            let policy = front(&mut layout, "policy", &torso, hidden).init(last).linear(head.outputs());
            let policy = policy.build();
            let of_values = LinearInit::Orthogonal { gain: 1.0 };
            let value = front(&mut layout, "value", &torso, hidden).init(of_values).linear(1).build();
            Body::Apart { policy, value }
        };
        let numbers = if matches!(head, Head::Normal { .. }) { head.outputs() } else { 0 };
        let log_std = layout.add("log_std", &[numbers], Init::Constant(0.0));
        Ok((VTraceNetwork { torso, head, body, log_std }, layout.init(key)))
    }

    /// Returns the number of outputs that acting computes for an observation: those of the policy, followed by the
    /// value if it has no layers of its own.
    pub(super) fn acting_outputs(&self) -> usize {
        self.head.outputs() + usize::from(!matches!(self.body, Body::Apart { .. }))
    }

    /// Returns the recurrent part, if there is one.
    pub(super) fn memory(&self) -> Option<&RecurrentNetwork> {
        match &self.body {
            Body::Apart { .. } | Body::Shared(_) => None,
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
            Body::Apart { policy, value } => gradient_apart((policy, value), params, x, gradient, loss),
            Body::Shared(network) => network.gradient_into(params, x, gradient, loss),
            Body::Recurrent(network) => network.gradient_into(params, (x, steps, state), gradient, loss),
        }
    }
}

/// Returns the first layers of a network.
fn front<'a>(layout: &'a mut Layout, name: &str, torso: &Torso, hidden: &[usize]) -> NetworkBuilder<'a> {
    let builder = Network::builder(layout, name, torso.inputs())
        .init(LinearInit::Orthogonal { gain: std::f32::consts::SQRT_2 });
    torso.layers(builder).mlp(hidden, Activation::Tanh)
}

/// Computes the gradient of a loss on rows that consist of the policy's outputs and the value.
fn gradient_apart<R>(
    (policy, value): (&Network, &Network),
    params: &Params,
    x: Inputs<'_>,
    gradient: &mut [f32],
    loss: impl FnOnce(&[f32], &mut [f32]) -> R,
) -> R {
    let numbers = policy.outputs();
    let mut by_value = vec![0.0; gradient.len()];
    let found = policy.gradient_into(params, x, gradient, |of_policy, by_policy| {
        value.gradient_into(params, x, &mut by_value, |values, by_values| {
            let mut rows = Vec::with_capacity(of_policy.len() + values.len());
            for (row, value) in of_policy.chunks_exact(numbers).zip(values) {
                rows.extend_from_slice(row);
                rows.push(*value);
            }
            let mut by_rows = vec![0.0; rows.len()];
            let found = loss(&rows, &mut by_rows);
            let by_rows = by_rows.chunks_exact(numbers + 1);
            for ((from, row), value) in by_rows.zip(by_policy.chunks_exact_mut(numbers)).zip(by_values) {
                row.copy_from_slice(&from[..numbers]);
                *value = from[numbers];
            }
            found
        })
    });
    let of_value = value.range();
    gradient[of_value.clone()].copy_from_slice(&by_value[of_value]);
    found
}
