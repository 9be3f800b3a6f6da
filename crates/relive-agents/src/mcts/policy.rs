//! Acts by searching.

use relive_env::{ArraySpec, Buffer};
use relive_nn::losses::argmax;
use relive_nn::{Key, Params, Scratch, Stream};
use relive_rl::{ActStep, Policy, PolicyContext, Purpose, Result, Saveable, Weights};
use relive_tensor::{DType, Nest};

use super::MctsConfig;
use super::dynamics::{Buffers, ImaginedEpisode};
use super::model::Simulator;
use super::network::{NetworkEvaluator, Networks};
use super::search::{Evaluate, Rules, Search};
use crate::actions::Discrete;
use crate::streams::Streams;
use crate::weights;

/// Draws actions in proportion to a search's visit counts, and writes these shares as the `policy`. An evaluation
/// chooses the most visited action.
///
/// If its searches need environments but none are available, the policy uses the network's probabilities instead.
#[derive(Debug)]
pub(super) struct MctsPolicy {
    networks: Networks,
    params: Params,
    rules: Rules,
    streams: Streams,
    explores: bool,
    rows: Vec<f32>,
    probabilities: Vec<f32>,
    search: Search,
    scratch: Scratch,
    memory: Buffers,
    simulated: Buffer,
}

/// Returns the policy's extras.
pub(super) fn extras(actions: Discrete) -> Nest<ArraySpec> {
    let count = u32::try_from(actions.count).unwrap_or(u32::MAX);
    Nest::dict([("policy", Nest::Leaf(ArraySpec::new("policy", DType::Float32, [count])))])
}

impl MctsPolicy {
    pub(super) fn new(config: &MctsConfig, context: &PolicyContext<'_>) -> Result<MctsPolicy> {
        let (networks, params) = Networks::new(config, context.spec, Key::from_seed(0))?;
        let explores = context.purpose == Purpose::Training;
        let rules = config.rules();
        Ok(MctsPolicy {
            simulated: Buffer::for_nest(&context.spec.observations, 1)?,
            networks,
            params,
            rules: if explores { rules } else { Rules { noise_share: 0.0, ..rules } },
            streams: Streams::new(context.keys),
            explores,
            rows: Vec::new(),
            probabilities: Vec::new(),
            search: Search::default(),
            scratch: Scratch::default(),
            memory: Buffers::default(),
        })
    }
}

impl Policy for MctsPolicy {
    fn act(&mut self, step: &mut ActStep<'_>) -> Result<()> {
        let Self { networks, params, rules, streams, search, scratch, memory, simulated, .. } = self;
        let Networks { features, actions, network, dynamics } = networks;
        let (probabilities, count) = (&mut self.probabilities, actions.count);
        features.write_rows(step.observations, &mut self.rows);
        let observations = self.rows.chunks_exact(features.width().max(1));
        for (row, (observation, stream)) in observations.zip(streams.each()).enumerate() {
            let mut thought = NetworkEvaluator { network, params, scratch };
            let at = (observation, &mut *stream);
            let is_found = match (&*dynamics, step.environments.as_mut().and_then(|all| all.one(row))) {
                (Some(dynamics), _) => {
                    memory.observation.clear();
                    memory.observation.extend_from_slice(observation);
                    search.run(rules, &mut ImaginedEpisode { dynamics, params, memory }, &mut thought, at)?
                }
                (None, Some(environment)) => {
                    let mut model = Simulator { environment, features, row: simulated };
                    search.run(rules, &mut model, &mut thought, at)?
                }
                (None, None) => false,
            };
            if is_found {
                probabilities.clear();
                probabilities.extend(search.policy());
            } else {
                thought.evaluate(observation, probabilities);
            }
            let place = row * count..(row + 1) * count;
            step.extras.leaf_mut::<f32>(0)?[place].copy_from_slice(probabilities);
            let action = if self.explores { draw(probabilities, stream) } else { argmax(probabilities) };
            actions.write(action, step.actions, row)?;
        }
        Ok(())
    }

    fn load(&mut self, newer: &Weights) -> Result<()> {
        weights::load(&mut self.params, newer)
    }

    fn extras(&self) -> Nest<ArraySpec> {
        extras(self.networks.actions)
    }
}

/// Draws an index with the given probabilities.
fn draw(probabilities: &[f32], stream: &mut Stream) -> usize {
    let mut left = stream.uniform();
    for (number, probability) in probabilities.iter().enumerate() {
        left -= f64::from(*probability);
        if left < 0.0 {
            return number;
        }
    }
    argmax(probabilities)
}

impl Saveable for MctsPolicy {
    fn save(&mut self) -> Vec<u8> {
        self.streams.save()
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        self.streams.restore(bytes)
    }
}
