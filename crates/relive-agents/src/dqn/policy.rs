//! Acts with the network's values.

use relive_env::ArraySpec;
use relive_nn::{Key, Params};
use relive_rl::{ActStep, Policy, PolicyContext, Purpose, Result, Saveable, Weights};
use relive_tensor::{DType, Nest};

use super::DqnConfig;
use super::network::{QNetwork, QScratch};
use crate::EpsilonGreedy;
use crate::saved::{self, Saved};
use crate::streams::Streams;
use crate::weights;

/// Chooses actions by their values. An evaluation also writes the `values`.
#[derive(Debug)]
pub(super) struct DqnPolicy {
    network: QNetwork,
    params: Params,
    choice: EpsilonGreedy,
    /// The streams of the rows, and noisy parameters; `None` for a network without noise, and in an evaluation.
    noise: Option<(Streams, Params)>,
    shows_values: bool,
    rows: Vec<f32>,
    outputs: Vec<f32>,
    values: Vec<f32>,
    scratch: QScratch,
}

impl DqnPolicy {
    pub(super) fn new(config: &DqnConfig, context: &PolicyContext<'_>) -> Result<DqnPolicy> {
        let (network, params) = QNetwork::new(config, context.spec, Key::from_seed(0))?;
        let is_noisy = config.noisy && context.purpose == Purpose::Training;
        let noise = is_noisy.then(|| {
            let keys: Vec<Key> = context.keys.iter().map(|key| key.child("noise")).collect();
            (Streams::new(&keys), params.clone())
        });
        Ok(DqnPolicy {
            noise,
            outputs: Vec::new(),
            network,
            params,
            choice: EpsilonGreedy::spread(config.epsilon, config.epsilon_alpha, context)?
                .decaying(config.epsilon_decay_steps, context),
            shows_values: context.purpose == Purpose::Evaluation,
            rows: Vec::new(),
            values: Vec::new(),
            scratch: QScratch::default(),
        })
    }
}

impl Policy for DqnPolicy {
    fn act(&mut self, step: &mut ActStep<'_>) -> Result<()> {
        let Self { network, params, choice, noise, shows_values, rows, outputs, values, scratch } = self;
        let seen = network.torso.read(step.observations, rows);
        let outputs = match (noise, &network.noise) {
            (Some((streams, noisy)), Some(noise)) => {
                outputs.clear();
                for (row, stream) in seen.chunks(network.inputs()).zip(streams.each()) {
                    noise.perturb(params, stream, noisy);
                    outputs.extend_from_slice(network.infer_each(noisy, row, scratch));
                }
                outputs
            }
            _ => network.infer_each(params, seen, scratch),
        };
        let values = network.rule.values(outputs, values);
        if *shows_values {
            step.extras.leaf_mut::<f32>(0)?.copy_from_slice(values);
        }
        choice.act(values, step.actions)
    }

    fn load(&mut self, newer: &Weights) -> Result<()> {
        weights::load(&mut self.params, newer)
    }

    fn extras(&self) -> Nest<ArraySpec> {
        if !self.shows_values {
            return Nest::None;
        }
        let actions = u32::try_from(self.choice.num_actions()).unwrap_or(u32::MAX);
        Nest::dict([("values", Nest::Leaf(ArraySpec::new("values", DType::Float32, [actions])))])
    }
}

impl DqnPolicy {
    fn parts(&mut self) -> Vec<Saved<'_>> {
        let mut parts = self.choice.parts();
        parts.extend(self.noise.as_mut().map(|(streams, _)| Saved::Streams(streams)));
        parts
    }
}

/// The name that error messages use for the owner of the saved state.
const WHAT: &str = "a policy of DQN";

impl Saveable for DqnPolicy {
    fn save(&mut self) -> Vec<u8> {
        saved::save(&mut self.parts())
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        saved::restore(WHAT, &mut self.parts(), bytes)
    }
}
