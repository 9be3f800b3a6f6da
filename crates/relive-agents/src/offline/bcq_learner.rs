//! The gradient step of BCQ.

use relive_env::EnvironmentSpec;
use relive_nn::losses::{self, Selected};
use relive_nn::{Adam, Key, Optimizer, Params, Scratch};
use relive_rl::learners::Peers;
use relive_rl::plan::{SampleBatch, Transitions};
use relive_rl::{Learner, Learnt, Result, Saveable, Weights};

use super::bcq::{BcqConfig, Networks, constrain};
use super::imitation::cross_entropy;
use crate::continuous::{checked, learnt};
use crate::saved::{self, Saved};
use crate::{together, weights};

/// The weight of the mean square of logits.
const LOGIT_PENALTY: f32 = 0.01;

/// Learns the values of actions that are likely enough, and the probabilities of actions.
#[derive(Debug)]
pub(super) struct BcqLearner {
    config: BcqConfig,
    networks: Networks,
    params: Params,
    target: Params,
    optimizer: Optimizer,
    gradient: Vec<f32>,
    batch: Transitions,
    actions: Vec<usize>,
    scratch: [Scratch; 3],
    peers: Peers,
}

impl BcqLearner {
    pub(super) fn new(config: &BcqConfig, spec: &EnvironmentSpec, key: Key) -> Result<BcqLearner> {
        let (networks, params) = Networks::of(config, spec, key)?;
        let adam = Adam { learning_rate: config.learning_rate, ..Adam::default() };
        Ok(BcqLearner {
            config: config.clone(),
            networks,
            target: params.clone(),
            optimizer: Optimizer::adam(adam, &params),
            gradient: vec![0.0; params.values().len()],
            params,
            batch: Transitions::new(spec, config.discount)?,
            actions: Vec::new(),
            scratch: Default::default(),
            peers: Peers::alone(),
        })
    }

    /// Returns the targets of the values of the actions taken.
    fn targets(&mut self) -> Vec<f32> {
        let Self { config, networks, params, target, batch, scratch, .. } = self;
        let [of_target, of_values, of_imitation] = scratch;
        let next = &batch.next_observations[..];
        let mut selector = networks.values.infer(params, next, of_values).to_vec();
        let logits = networks.imitation.infer(params, next, of_imitation);
        constrain(&mut selector, logits, networks.actions.count, config.threshold);
        let values = networks.values.infer(target, next, of_target);
        losses::double_q_targets(&batch.rewards, &batch.discounts, values, &selector)
    }

    /// Takes a step with the loaded batch. Returns the losses of values and of imitation, and the gradient's norm.
    fn improve(&mut self) -> Result<(f32, f32, f32)> {
        let targets = self.targets();
        let Self { networks, params, gradient, batch, actions, .. } = self;
        let (seen, weights) = (&batch.observations[..], vec![1.0; actions.len()]);
        let value_loss = networks.values.gradient_into(params, seen, gradient, |values, by_values| {
            let selected = Selected { actions, weights: &weights };
            losses::q_loss(values, selected, &targets, 1.0, by_values).loss
        });
        let policy_loss = networks.imitation.gradient_into(params, seen, gradient, |logits, by_logits| {
            imitation_loss(logits, actions, by_logits)
        });
        let norm = together::step(&mut self.optimizer, params, gradient, &self.peers)?;
        self.target.polyak_from(params, self.config.tau);
        Ok((value_loss, policy_loss, norm))
    }
}

/// Computes the cross-entropy, and a penalty on the squares of logits.
#[expect(clippy::cast_precision_loss, reason = "logits of a batch")]
fn imitation_loss(logits: &[f32], actions: &[usize], by_logits: &mut [f32]) -> f32 {
    let entropy = cross_entropy(logits, actions, by_logits);
    let scale = LOGIT_PENALTY / logits.len().max(1) as f32;
    by_logits.iter_mut().zip(logits).for_each(|(by, logit)| *by += 2.0 * scale * logit);
    entropy + scale * logits.iter().map(|logit| logit * logit).sum::<f32>()
}

impl Learner for BcqLearner {
    type Batch = Vec<SampleBatch>;

    fn learn(&mut self, batches: Vec<SampleBatch>) -> Result<Learnt> {
        self.batch.read(&batches)?;
        drop(batches);
        self.networks.actions.numbers(&self.batch.actions, &mut self.actions)?;
        let (value_loss, policy_loss, norm) = self.improve()?;
        let found = vec![("value_loss", value_loss), ("policy_loss", policy_loss)];
        let found = checked(self.optimizer.steps(), &[norm], found)?;
        Ok(learnt(self.actions.len(), found))
    }

    fn weights(&self) -> Result<Weights> {
        weights::published(&self.params)
    }

    fn share(&mut self, peers: Peers) -> Result<()> {
        self.peers = peers;
        Ok(())
    }
}

impl BcqLearner {
    fn parts(&mut self) -> [Saved<'_>; 3] {
        let Self { params, target, optimizer, .. } = self;
        [Saved::Params(params), Saved::Params(target), Saved::Optimizer(optimizer)]
    }
}

impl Saveable for BcqLearner {
    fn save(&mut self) -> Vec<u8> {
        saved::save(&mut self.parts())
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        saved::restore("a learner of BCQ", &mut self.parts(), bytes)
    }
}

#[cfg(test)]
mod tests {
    use relive_env::ArraySpec;
    use relive_tensor::{DType, Nest};

    use super::*;

    #[test]
    fn the_imitation_loss_and_gradient_match_a_hand_computation() {
        let mut by = [0.0; 2];
        // G = (3/4, 1/4); −ln(1/4); logits (ln 3, 0), whose mean square is (ln 3)²/2.
        let logit = 3.0_f32.ln();
        let loss = imitation_loss(&[logit, 0.0], &[1], &mut by);
        assert!((loss - (4.0_f32.ln() + 0.005 * logit * logit)).abs() < 1e-6, "{loss}");
        let expected = [0.75 + 0.01 * logit, -0.75];
        assert!(by.iter().zip(expected).all(|(got, want)| (got - want).abs() < 1e-6), "{by:?}");
    }

    #[test]
    fn a_bcq_step_follows_the_hand_computed_gradient() {
        let observations = Nest::Leaf(ArraySpec::new("", DType::Float32, [1]));
        let spec = EnvironmentSpec::new(observations, Nest::Leaf(ArraySpec::discrete("", 2)));
        let config = BcqConfig { hidden: Vec::new(), discount: 0.5, ..BcqConfig::default() };
        let mut learner = BcqLearner::new(&config, &spec, Key::from_seed(1)).unwrap();
        // Each network has a weight and a bias per action: the values are (2s, 3s + 1), and the logits are (0, −5s).
        let all = [2.0, 3.0, 0.0, 1.0, 0.0, -5.0, 0.0, 0.0];
        learner.params.values_mut().copy_from_slice(&all);
        learner.target.values_mut().copy_from_slice(&all);
        let Transitions { observations, next_observations, rewards, discounts, .. } = &mut learner.batch;
        (*observations, *next_observations) = (vec![0.5], vec![1.0]);
        (*rewards, *discounts, learner.actions) = (vec![1.0], vec![0.5], vec![0]);
        // In s' = 1, the second action has value 4, but only e^−5 times the probability of the first action, which has
        // value 2.
        assert_eq!(learner.targets(), [2.0]);
        let (value_loss, policy_loss, _) = learner.improve().unwrap();
        // q(0.5, 0) = 1, so the error is 1, at which the Huber loss is ½ and its slope is 1.
        assert!((value_loss - 0.5).abs() < 1e-6, "{value_loss}");
        let second = (-2.5_f32).exp() / (1.0 + (-2.5_f32).exp());
        let entropy = (1.0 + (-2.5_f32).exp()).ln() + 0.01 * 2.5 * 2.5 / 2.0;
        assert!((policy_loss - entropy).abs() < 1e-6, "{policy_loss}");
        let by_logits = [-second, second - 0.01 * 2.5];
        let expected =
            [-0.5, 0.0, -1.0, 0.0, 0.5 * by_logits[0], 0.5 * by_logits[1], by_logits[0], by_logits[1]];
        let found = learner.gradient.iter().zip(expected);
        assert!(
            found.clone().all(|(got, want)| (got - want).abs() < 1e-5),
            "{:?} {expected:?}",
            learner.gradient
        );
    }
}
