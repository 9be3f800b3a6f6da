//! Acts with the policy network.

use relive_env::ArraySpec;
use relive_nn::{Key, Params, Scratch};
use relive_rl::{ActStep, Policy, PolicyContext, Purpose, Result, Saveable, Weights};
use relive_tensor::{DType, Nest};

use super::Settings;
use super::head::Head;
use super::network::ActorCritic;
use crate::streams::Streams;
use crate::weights;

/// Draws actions from the policy network's distribution; an evaluation uses the most likely action.
///
/// Besides actions, the policy writes their `log_probability`, the `value` of the observation, and, for continuous
/// actions, the `action` before it was clipped to the bounds.
#[derive(Debug)]
pub struct ActorCriticPolicy {
    network: ActorCritic,
    params: Params,
    streams: Streams,
    explores: bool,
    rows: Vec<f32>,
    scratch: [Scratch; 2],
    drawn: Vec<f32>,
}

impl ActorCriticPolicy {
    /// Creates a policy for a worker.
    ///
    /// # Errors
    /// [`Unsuited`](relive_rl::RlError::Unsuited): the environment has unsupported actions, or observations that are
    /// not numbers.
    pub fn new(settings: &Settings, context: &PolicyContext<'_>) -> Result<ActorCriticPolicy> {
        let (network, params) = ActorCritic::new(
            context.spec,
            &settings.hidden,
            settings.normalize_observations,
            Key::from_seed(0),
        )?;
        let drawn = vec![0.0; network.log_std.len()];
        Ok(ActorCriticPolicy {
            network,
            params,
            streams: Streams::new(context.keys),
            explores: context.purpose == Purpose::Training,
            rows: Vec::new(),
            scratch: Default::default(),
            drawn,
        })
    }
}

impl Policy for ActorCriticPolicy {
    fn act(&mut self, step: &mut ActStep<'_>) -> Result<()> {
        let ActorCriticPolicy {
            network, params, streams, rows, scratch: [for_policy, for_value], drawn, ..
        } = self;
        network.rows(params, step.observations, rows);
        let outputs = network.policy.infer_each(params, &*rows, for_policy);
        let values = network.value.infer_each(params, &*rows, for_value);
        let log_std = &params.values()[network.log_std.clone()];
        let unclipped = usize::from(!drawn.is_empty());
        for (row, (outputs, stream)) in
            outputs.chunks_exact(network.head.outputs()).zip(streams.each()).enumerate()
        {
            let stream = self.explores.then_some(stream);
            let log_probability =
                network.head.act((outputs, log_std), stream, (&mut *step.actions, row), drawn)?;
            step.extras.leaf_mut::<f32>(unclipped)?[row] = log_probability;
            if unclipped == 1 {
                let width = drawn.len();
                step.extras.leaf_mut::<f32>(0)?[row * width..(row + 1) * width].copy_from_slice(drawn);
            }
        }
        step.extras.leaf_mut::<f32>(unclipped + 1)?.copy_from_slice(values);
        Ok(())
    }

    fn load(&mut self, newer: &Weights) -> Result<()> {
        weights::load(&mut self.params, newer)
    }

    fn extras(&self) -> Nest<ArraySpec> {
        let scalar = |name: &str| ArraySpec::new(name, DType::Float32, []);
        let mut leaves = vec![("log_probability", scalar("log_probability")), ("value", scalar("value"))];
        if let Head::Normal { low, .. } = &self.network.head {
            let width = u32::try_from(low.len()).unwrap_or(u32::MAX);
            leaves.push(("action", ArraySpec::new("action", DType::Float32, [width])));
        }
        Nest::dict(leaves)
    }
}

impl Saveable for ActorCriticPolicy {
    fn save(&mut self) -> Vec<u8> {
        self.streams.save()
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        self.streams.restore(bytes)
    }
}
