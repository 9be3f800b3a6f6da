//! Policy and critics.

use relive_env::{Buffer, EnvironmentSpec};
use relive_nn::{Activation, Key, Layout, LinearInit, Network, Params};
use relive_rl::{Features, Result, RlError};

use crate::actions;
use crate::actor_critic::Head;
use crate::settings::fits;

/// Observations as rows of numbers, and actions scaled to −1..1 and back.
#[derive(Debug, Clone)]
pub(super) struct Spaces {
    pub(super) observations: Features,
    low: Vec<f32>,
    high: Vec<f32>,
}

impl Spaces {
    /// # Errors
    /// [`Unsuited`](RlError::Unsuited): actions are no array of float32 between bounds, or observations are not numbers.
    pub(super) fn of(spec: &EnvironmentSpec) -> Result<Spaces> {
        let observations = Features::of(&spec.observations)?;
        let expected = "actions that are one array of float32 between bounds";
        match Head::of(spec) {
            Ok(Head::Normal { low, high }) if low.iter().chain(&high).all(|bound| bound.is_finite()) => {
                Ok(Spaces { observations, low, high })
            }
            Err(RlError::Unsuited { got, .. }) => Err(RlError::Unsuited { expected, got }),
            _ => Err(RlError::Unsuited { expected, got: actions::told(&spec.actions) }),
        }
    }

    /// Numbers of an action.
    pub(super) fn dimensions(&self) -> usize {
        self.low.len()
    }

    /// Actions of the environment, scaled to −1..1 in their place.
    pub(super) fn scale(&self, actions: &mut [f32]) {
        for row in actions.chunks_exact_mut(self.dimensions()) {
            for ((number, low), high) in row.iter_mut().zip(&self.low).zip(&self.high) {
                *number = (2.0 * (*number - low) / (high - low) - 1.0).clamp(-1.0, 1.0);
            }
        }
    }

    /// Writes an action in −1..1 to a row of the environment's actions.
    pub(super) fn write(&self, scaled: &[f32], actions: &mut Buffer, row: usize) -> Result<()> {
        let width = self.dimensions();
        let place = &mut actions.leaf_mut::<f32>(0)?[row * width..(row + 1) * width];
        for (((to, scaled), low), high) in place.iter_mut().zip(scaled).zip(&self.low).zip(&self.high) {
            *to = (low + 0.5 * (scaled + 1.0) * (high - low)).clamp(*low, *high);
        }
        Ok(())
    }
}

/// The network of the policy, which puts out a mean and the logarithm of a standard deviation for each number of an action; and its parameters
/// to begin with.
///
/// # Errors
/// There are no such networks.
pub(super) fn policy(spaces: &Spaces, hidden: &[usize], key: Key) -> Result<(Network, Params)> {
    let mut layout = Layout::new();
    let network =
        network(&mut layout, "policy", spaces.observations.width(), hidden, 2 * spaces.dimensions())?;
    Ok((network, layout.init(key.child("policy"))))
}

/// Two critics, which value an observation with an action behind it; and their parameters to begin with.
///
/// # Errors
/// There are no such networks.
pub(super) fn critics(spaces: &Spaces, hidden: &[usize], key: Key) -> Result<([Network; 2], Params)> {
    let mut layout = Layout::new();
    let inputs = spaces.observations.width() + spaces.dimensions();
    let first = network(&mut layout, "critic_1", inputs, hidden, 1)?;
    let second = network(&mut layout, "critic_2", inputs, hidden, 1)?;
    Ok(([first, second], layout.init(key.child("critics"))))
}

fn network(
    layout: &mut Layout,
    name: &str,
    inputs: usize,
    hidden: &[usize],
    outputs: usize,
) -> Result<Network> {
    fits(inputs, hidden, outputs)?;
    let body = Network::builder(layout, name, inputs).init(LinearInit::PyTorch);
    Ok(body.mlp(hidden, Activation::Relu).linear(outputs).build())
}

/// Rows of observations and actions side by side.
pub(super) fn join(observations: &[f32], actions: &[f32], dimensions: usize, rows: &mut Vec<f32>) {
    let count = actions.len() / dimensions;
    let width = observations.len() / count.max(1);
    rows.clear();
    for (observation, action) in observations.chunks_exact(width.max(1)).zip(actions.chunks_exact(dimensions))
    {
        rows.extend_from_slice(observation);
        rows.extend_from_slice(action);
    }
}
