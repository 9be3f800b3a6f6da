//! Acting.

use relive_env::ArraySpec;
use relive_nn::{Key, Params, Scratch};
use relive_rl::{ActStep, Policy, Purpose, Result, Saveable, Seat, Weights};
use relive_tensor::{DType, Nest};

use super::DqnConfig;
use super::network::QNetwork;
use crate::EpsilonGreedy;
use crate::weights;

/// Acts by the values of actions. In an evaluation it writes the `values`, too.
#[derive(Debug)]
pub(super) struct DqnPolicy {
    network: QNetwork,
    params: Params,
    choice: EpsilonGreedy,
    shows_values: bool,
    rows: Vec<f32>,
    values: Vec<f32>,
    scratch: Scratch,
}

impl DqnPolicy {
    pub(super) fn new(config: &DqnConfig, seat: &Seat<'_>) -> Result<DqnPolicy> {
        let (network, params) = QNetwork::new(config, seat.spec, Key::from_seed(0))?;
        Ok(DqnPolicy {
            network,
            params,
            choice: EpsilonGreedy::spread(config.epsilon, config.epsilon_alpha, seat)?,
            shows_values: seat.purpose == Purpose::Evaluation,
            rows: Vec::new(),
            values: Vec::new(),
            scratch: Scratch::default(),
        })
    }
}

impl Policy for DqnPolicy {
    fn act(&mut self, step: &mut ActStep<'_>) -> Result<()> {
        let Self { network, params, choice, shows_values, rows, values, scratch } = self;
        let seen = network.torso.read(step.observations, rows);
        let outputs = network.network.infer_each(params, seen, scratch);
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

impl Saveable for DqnPolicy {
    fn save(&mut self) -> Vec<u8> {
        self.choice.save()
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        self.choice.restore(bytes)
    }
}
