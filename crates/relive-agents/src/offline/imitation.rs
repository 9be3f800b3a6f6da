//! Imitation of recorded actions.

use relive_env::EnvironmentSpec;
use relive_nn::{Adam, Key, Layout, Network, Optimizer, Params};
use relive_rl::learners::Peers;
use relive_rl::plan::{SampleBatch, Transitions};
use relive_rl::{Features, Learner, Learnt, Result, Saveable, Weights};

use super::bc::BcConfig;
use super::regression::{Regression, head};
use crate::actions::Discrete;
use crate::continuous::{Body, Improve, Layers, Role, Spaces, StepMetrics, Trained, checked, learnt};
use crate::images::plain_numbers;
use crate::saved::{self, Saved};
use crate::settings::fits;
use crate::{together, weights};

/// Imitates continuous actions.
#[derive(Debug)]
pub(super) struct NumbersStep {
    dimensions: usize,
    policy: Trained<Network>,
    regression: Regression,
    weights: Vec<f32>,
}

impl NumbersStep {
    pub(super) fn new(config: &BcConfig, spec: &EnvironmentSpec, key: Key) -> Result<NumbersStep> {
        let spaces = Spaces::of(spec)?;
        let policy = config.layers().policy(&spaces, 2 * spaces.dimensions(), Role::Linear, key)?;
        Ok(NumbersStep {
            dimensions: spaces.dimensions(),
            policy: Trained::new(policy, config.learning_rate),
            regression: Regression::default(),
            weights: Vec::new(),
        })
    }
}

impl Improve for NumbersStep {
    const WHAT: &'static str = "a learner of BC";

    fn improve(&mut self, batch: &Transitions) -> Result<StepMetrics> {
        let Self { dimensions, policy: Trained { networks, params, gradient, .. }, regression, weights } =
            self;
        weights.clear();
        weights.resize(batch.rewards.len(), 1.0);
        let loss = networks.gradient_into(params, &batch.observations, gradient, |outputs, by_outputs| {
            regression.loss(head(*dimensions), outputs, (&batch.actions, weights), by_outputs)
        });
        let norm = self.policy.step()?;
        checked(self.policy.optimizer.steps(), &[norm], vec![("policy_loss", loss)])
    }

    fn share(&mut self, peers: &Peers) {
        self.policy.share(peers);
    }

    fn acting(&self) -> &Params {
        &self.policy.params
    }

    fn parts(&mut self) -> Vec<Saved<'_>> {
        self.policy.parts().into()
    }
}

/// Creates the network of a policy for one discrete action, which outputs logits, and its initial parameters.
pub(super) fn logits(
    config: &BcConfig,
    spec: &EnvironmentSpec,
    key: Key,
) -> Result<(Features, Discrete, Network, Params)> {
    let (features, actions) = (plain_numbers(&spec.observations)?, Discrete::expect(spec)?);
    fits(features.width(), &config.hidden, actions.count)?;
    let mut layout = Layout::new();
    let layers = Layers { body: Body::Relu, hidden: &config.hidden };
    let shape = (features.width(), actions.count);
    let network = layers.network(&mut layout, "policy", shape, Role::Linear)?;
    Ok((features, actions, network, layout.init(key.child("policy"))))
}

/// Imitates discrete actions.
#[derive(Debug)]
pub(super) struct ChoiceLearner {
    actions: Discrete,
    network: Network,
    params: Params,
    optimizer: Optimizer,
    gradient: Vec<f32>,
    batch: Transitions,
    numbers: Vec<usize>,
    peers: Peers,
}

impl ChoiceLearner {
    pub(super) fn new(config: &BcConfig, spec: &EnvironmentSpec, key: Key) -> Result<ChoiceLearner> {
        let (_, actions, network, params) = logits(config, spec, key)?;
        let adam = Adam { learning_rate: config.learning_rate, ..Adam::default() };
        Ok(ChoiceLearner {
            actions,
            network,
            optimizer: Optimizer::adam(adam, &params),
            gradient: vec![0.0; params.values().len()],
            params,
            batch: Transitions::new(spec, 1.0)?,
            numbers: Vec::new(),
            peers: Peers::alone(),
        })
    }
}

impl Learner for ChoiceLearner {
    type Batch = Vec<SampleBatch>;

    fn learn(&mut self, batches: Vec<SampleBatch>) -> Result<Learnt> {
        let Self { network, params, gradient, numbers, optimizer, peers, .. } = self;
        self.batch.read(&batches)?;
        drop(batches);
        self.actions.numbers(&self.batch.actions, numbers)?;
        let loss = network.gradient_into(params, &self.batch.observations, gradient, |logits, by_logits| {
            cross_entropy(logits, numbers, by_logits)
        });
        let norm = together::step(optimizer, params, gradient, peers)?;
        let found = checked(self.optimizer.steps(), &[norm], vec![("policy_loss", loss)])?;
        Ok(learnt(numbers.len(), found))
    }

    fn weights(&self) -> Result<Weights> {
        weights::published(&self.params)
    }

    fn share(&mut self, peers: Peers) -> Result<()> {
        self.peers = peers;
        Ok(())
    }
}

impl Saveable for ChoiceLearner {
    fn save(&mut self) -> Vec<u8> {
        saved::save(&mut [Saved::Params(&mut self.params), Saved::Optimizer(&mut self.optimizer)])
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        let parts = &mut [Saved::Params(&mut self.params), Saved::Optimizer(&mut self.optimizer)];
        saved::restore("a learner of BC", parts, bytes)
    }
}

/// Computes −mean ln π(a) of logits, and its gradient with respect to them.
#[expect(clippy::cast_precision_loss, reason = "rows of a batch")]
pub(super) fn cross_entropy(logits: &[f32], actions: &[usize], by_logits: &mut [f32]) -> f32 {
    let (width, count) = (logits.len() / actions.len().max(1), actions.len().max(1) as f32);
    let (mut probabilities, mut loss) = (Vec::new(), 0.0);
    relive_nn::losses::softmax(logits, width.max(1), &mut probabilities);
    by_logits.copy_from_slice(&probabilities);
    for (by, action) in by_logits.chunks_exact_mut(width.max(1)).zip(actions) {
        loss -= by[*action].max(f32::MIN_POSITIVE).ln() / count;
        by[*action] -= 1.0;
        by.iter_mut().for_each(|by| *by /= count);
    }
    loss
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cross_entropy_moves_logits_to_the_taken_action() {
        let mut by = [0.0; 4];
        let loss = cross_entropy(&[0.0, 0.0, 3.0_f32.ln(), 0.0], &[0, 0], &mut by);
        assert!((loss - 0.5 * (2.0_f32.ln() + (4.0_f32 / 3.0).ln())).abs() < 1e-6, "{loss}");
        let expected = [-0.25, 0.25, -0.125, 0.125];
        assert!(by.iter().zip(expected).all(|(got, want)| (got - want).abs() < 1e-6), "{by:?}");
    }
}
