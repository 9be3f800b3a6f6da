//! The networks for the policy and the value.

use std::ops::Range;

use relive_env::{Buffer, EnvironmentSpec};
use relive_nn::{Activation, Init, Key, Layout, LinearInit, Network, Params};
use relive_rl::{Features, Result};

use super::head::Head;
use crate::images::plain_numbers;
use crate::settings::fits;

/// Normalized observations are clipped to ± this value.
const MAX_OBSERVATION: f32 = 10.0;

/// A policy network and a value network, which share no layers. The networks' inputs are observations, as rows of
/// numbers.
#[derive(Debug, Clone)]
pub(super) struct ActorCritic {
    pub(super) features: Features,
    pub(super) head: Head,
    pub(super) policy: Network,
    pub(super) value: Network,
    /// The logarithms of the standard deviations, for a normal head.
    pub(super) log_std: Range<usize>,
    /// Means and inverse standard deviations of observations, if they are normalized.
    pub(super) moments: Option<[Range<usize>; 2]>,
}

impl ActorCritic {
    /// Creates the networks for an environment, and their initial parameters.
    pub(super) fn new(
        spec: &EnvironmentSpec,
        hidden: &[usize],
        normalizes: bool,
        key: Key,
    ) -> Result<(ActorCritic, Params)> {
        let (features, head) = (plain_numbers(&spec.observations)?, Head::of(spec)?);
        fits(features.width(), hidden, head.outputs())?;
        let mut layout = Layout::new();
        let mut network = |name, outputs, gain| {
            let body = Network::builder(&mut layout, name, features.width())
                .init(LinearInit::Orthogonal { gain: std::f32::consts::SQRT_2 })
                .mlp(hidden, Activation::Tanh);
            body.init(LinearInit::Orthogonal { gain }).linear(outputs).build()
        };
        let (policy, value) = (network("policy", head.outputs(), 0.01), network("value", 1, 1.0));
        let numbers = if matches!(head, Head::Normal { .. }) { head.outputs() } else { 0 };
        let log_std = layout.add("log_std", &[numbers], Init::Constant(0.0));
        let moments = normalizes.then(|| {
            let width = [features.width()];
            let mean = layout.add("observations/mean", &width, Init::Constant(0.0));
            [mean, layout.add("observations/inverse_std", &width, Init::Constant(1.0))]
        });
        Ok((ActorCritic { features, head, policy, value, log_std, moments }, layout.init(key)))
    }

    /// Writes observations as rows of numbers, normalized if the settings request it.
    pub(super) fn rows(&self, params: &Params, observations: &Buffer, rows: &mut Vec<f32>) {
        self.features.write_rows(observations, rows);
        let Some([mean, inverse_std]) = &self.moments else { return };
        let values = params.values();
        let (mean, inverse_std) = (&values[mean.clone()], &values[inverse_std.clone()]);
        for row in rows.chunks_exact_mut(mean.len().max(1)) {
            for ((value, mean), inverse_std) in row.iter_mut().zip(mean).zip(inverse_std) {
                *value = ((*value - mean) * inverse_std).clamp(-MAX_OBSERVATION, MAX_OBSERVATION);
            }
        }
    }
}
