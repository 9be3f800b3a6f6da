//! The network for the policy and the value.

use relive_env::EnvironmentSpec;
use relive_nn::{Activation, Key, Layout, Network, Params, Scratch};
use relive_rl::{Features, Result};

use super::dynamics::Dynamics;
use super::loss::softmax;
use super::search::Evaluate;
use super::{MctsConfig, MctsModel};
use crate::actions::Discrete;
use crate::images::plain_numbers;
use crate::settings;

/// A network that maps an observation to a logit for each action, followed by the value; and the learned model, if
/// there is one.
#[derive(Debug, Clone)]
pub(super) struct Networks {
    pub(super) features: Features,
    pub(super) actions: Discrete,
    pub(super) network: Network,
    pub(super) dynamics: Option<Dynamics>,
}

impl Networks {
    /// Creates the networks for an environment with one discrete action, and their initial parameters.
    pub(super) fn new(config: &MctsConfig, spec: &EnvironmentSpec, key: Key) -> Result<(Networks, Params)> {
        let (features, actions) = (plain_numbers(&spec.observations)?, Discrete::expect(spec)?);
        let outputs = actions.count.saturating_add(1);
        settings::fits(features.width(), &config.hidden, outputs)?;
        let mut layout = Layout::new();
        let network = Network::builder(&mut layout, "policy_and_value", features.width());
        let network = network.mlp(&config.hidden, Activation::Relu).linear(outputs).build();
        let dynamics = match config.model {
            MctsModel::Simulator => None,
            MctsModel::Learned => {
                let sizes = (features.width(), actions.count);
                Some(Dynamics::new(&mut layout, sizes, &config.model_hidden)?)
            }
        };
        Ok((Networks { features, actions, network, dynamics }, layout.init(key)))
    }
}

/// A network with its parameters and scratch memory, used as an evaluator.
pub(super) struct NetworkEvaluator<'a> {
    pub(super) network: &'a Network,
    pub(super) params: &'a Params,
    pub(super) scratch: &'a mut Scratch,
}

impl Evaluate for NetworkEvaluator<'_> {
    fn evaluate(&mut self, observation: &[f32], prior: &mut Vec<f32>) -> f32 {
        let outputs = self.network.infer(self.params, observation, self.scratch);
        let Some((value, logits)) = outputs.split_last() else { return 0.0 };
        softmax(logits, prior);
        *value
    }
}
