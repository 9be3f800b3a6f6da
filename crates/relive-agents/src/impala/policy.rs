//! Acts with the network's distribution.

use relive_env::ArraySpec;
use relive_nn::{Key, Params, Scratch};
use relive_rl::{ActStep, Policy, PolicyContext, Purpose, Result, Saveable, Weights};
use relive_tensor::{DType, Nest};

use super::network::{Body, VTraceNetwork};
use super::settings::Settings;
use crate::actor_critic::Head;
use crate::recurrent_states::RecurrentStates;
use crate::saved::{self, Saved};
use crate::streams::Streams;
use crate::weights;

/// Draws actions from the network's distribution; an evaluation uses the most likely action.
///
/// Besides actions, the policy writes their `log_probability`; the `cell` and the `hidden` state, if it is recurrent;
/// and, for continuous actions, the `action` before it was clipped to the bounds.
#[derive(Debug)]
pub(super) struct VTracePolicy {
    network: VTraceNetwork,
    params: Params,
    memory: Option<RecurrentStates>,
    streams: Streams,
    explores: bool,
    rows: Vec<f32>,
    scratch: Scratch,
    drawn: Vec<f32>,
}

/// The positions of the extras among the policy's leaves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extras {
    /// The first of the two leaves of the recurrent state.
    pub(super) states: usize,
    pub(super) log_probability: usize,
}

impl Extras {
    pub(super) fn of(network: &VTraceNetwork) -> Extras {
        let states = usize::from(matches!(network.head, Head::Normal { .. }));
        Extras { states, log_probability: states + if network.memory().is_some() { 2 } else { 0 } }
    }
}

impl VTracePolicy {
    pub(super) fn new(settings: &Settings, context: &PolicyContext<'_>) -> Result<VTracePolicy> {
        let (network, params) = VTraceNetwork::new(settings, context.spec, Key::from_seed(0))?;
        Ok(VTracePolicy {
            memory: network.memory().map(|memory| RecurrentStates::new(memory, context.keys.len())),
            drawn: vec![0.0; network.log_std.len()],
            network,
            params,
            streams: Streams::new(context.keys),
            explores: context.purpose == Purpose::Training,
            rows: Vec::new(),
            scratch: Scratch::default(),
        })
    }
}

impl Policy for VTracePolicy {
    fn act(&mut self, step: &mut ActStep<'_>) -> Result<()> {
        let Self { network, params, memory, streams, explores, rows, scratch, drawn } = self;
        let seen = network.torso.read(step.observations, rows);
        let places = Extras::of(network);
        let outputs = match (&network.body, memory) {
            (Body::Recurrent(network), Some(memory)) => {
                memory.forget(step.starts);
                memory.write_extras(step.extras, places.states)?;
                memory.act(network, params, seen)
            }
            (Body::Recurrent(_), None) => &[],
            (Body::Apart { policy: network, .. } | Body::Shared(network), _) => {
                network.infer_each(params, seen, scratch)
            }
        };
        let log_std = &params.values()[network.log_std.clone()];
        let (width, of_policy, numbers) = (network.acting_outputs(), network.head.outputs(), drawn.len());
        for (row, (outputs, stream)) in outputs.chunks_exact(width).zip(streams.each()).enumerate() {
            let stream = explores.then_some(stream);
            let outputs = (&outputs[..of_policy], log_std);
            let log_probability = network.head.act(outputs, stream, (&mut *step.actions, row), drawn)?;
            step.extras.leaf_mut::<f32>(places.log_probability)?[row] = log_probability;
            if numbers > 0 {
                let place = row * numbers..(row + 1) * numbers;
                step.extras.leaf_mut::<f32>(0)?[place].copy_from_slice(drawn);
            }
        }
        Ok(())
    }

    fn load(&mut self, newer: &Weights) -> Result<()> {
        weights::load(&mut self.params, newer)
    }

    fn extras(&self) -> Nest<ArraySpec> {
        let leaf = |name: &str, dims: &[u32]| Nest::Leaf(ArraySpec::new(name, DType::Float32, dims));
        let mut leaves = vec![("log_probability", leaf("log_probability", &[]))];
        leaves.extend(self.network.memory().into_iter().flat_map(RecurrentStates::extras));
        if let Head::Normal { low, .. } = &self.network.head {
            let width = u32::try_from(low.len()).unwrap_or(u32::MAX);
            leaves.push(("action", leaf("action", &[width])));
        }
        Nest::dict(leaves)
    }
}

impl VTracePolicy {
    fn parts(&mut self) -> Vec<Saved<'_>> {
        let mut parts = vec![Saved::Streams(&mut self.streams)];
        parts.extend(self.memory.as_mut().map(|memory| Saved::Fields(memory)));
        parts
    }
}

/// The name that error messages use for the owner of the saved state.
const WHAT: &str = "a policy of IMPALA or APPO";

impl Saveable for VTracePolicy {
    fn save(&mut self) -> Vec<u8> {
        saved::save(&mut self.parts())
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        saved::restore(WHAT, &mut self.parts(), bytes)
    }
}
