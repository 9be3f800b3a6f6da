//! One gradient step per batch.

use relive_nn::losses::{self, BatchLoss, Selected};
use relive_nn::{Adam, Inputs, Optimizer, Params, Stream};
use relive_rl::learners::Peers;
use relive_rl::plan::{Crew, SampleBatch, Transitions};
use relive_rl::{Learner, Learnt, Result, RlError, Saveable, Weights};

use super::DqnConfig;
use super::implicit::{self, Fractions};
use super::loss::{TargetInputs, Targets};
use super::network::{QNetwork, QScratch};
use super::noise::Drawn;
use crate::misfit::Misfits;
use crate::off_policy::learnt;
use crate::saved::{self, Saved};
use crate::{together, weights};

/// Learns from batches of transitions with an importance-weighted [loss](super::DqnLoss) and a target network. The
/// error of each transition becomes its new priority.
#[derive(Debug)]
pub(super) struct DqnLearner {
    config: DqnConfig,
    network: QNetwork,
    params: Params,
    target: Params,
    optimizer: Optimizer,
    batch: Transitions,
    actions: Vec<usize>,
    scratch: [QScratch; 3],
    /// Random fractions of outputs and targets, for losses that use them.
    taus: [Vec<f32>; 2],
    /// Online and target parameters with noise added, if the network is noisy.
    noisy: Option<[Params; 2]>,
    stream: Stream,
    peers: Peers,
    misfits: Misfits,
}

impl DqnLearner {
    pub(super) fn new(config: &DqnConfig, crew: &Crew) -> Result<DqnLearner> {
        let (network, params) = QNetwork::new(config, crew.spec(), crew.learner_key())?;
        let batch = Transitions::new(crew.spec(), config.discount)?;
        let adam = Adam { learning_rate: config.learning_rate, ..Adam::default() };
        let optimizer = Optimizer::adam(adam, &params);
        Ok(DqnLearner {
            optimizer: optimizer.max_gradient_norm(config.max_gradient_norm),
            batch: if network.torso.sees_pictures() { batch.with_pictures() } else { batch },
            noisy: config.noisy.then(|| [params.clone(), params.clone()]),
            stream: crew.learner_key().child("noise").stream(),
            config: config.clone(),
            network,
            target: params.clone(),
            params,
            actions: Vec::new(),
            scratch: Default::default(),
            taus: Default::default(),
            peers: Peers::alone(),
            misfits: Misfits::default(),
        })
    }

    /// Returns the targets of the outputs for the actions taken.
    fn targets(&mut self) -> Vec<f32> {
        let Self { batch, actions, target, params, noisy, taus: [_, taus], network, misfits, .. } = self;
        let [params, target] = match noisy {
            Some([params, target]) => [&*params, &*target],
            None => [&*params, &*target],
        };
        let [for_target, for_online, for_before] = &mut self.scratch;
        let rule = network.rule;
        let [seen, next] = inputs(batch);
        let before: &[f32] = match rule.needs_previous() {
            true => network.infer(target, seen, Fractions::Middles, for_before),
            false => &[],
        };
        let evidence = TargetInputs {
            rewards: &batch.rewards,
            discounts: &batch.discounts,
            actions,
            before,
            next_target: network.infer(target, next, Fractions::Drawn(taus), for_target),
            next_online: network.infer(params, next, Fractions::Middles, for_online),
        };
        rule.tell_range(misfits, &evidence);
        rule.targets(&evidence)
    }

    /// Draws noise for both networks. Returns the noise of the online network.
    fn perturb(&mut self) -> Option<Drawn> {
        let Self { network, params, target, noisy, stream, .. } = self;
        let ([online, targets], noise) = noisy.as_mut().zip(network.noise.as_ref())?;
        noise.perturb(target, stream, targets);
        Some(noise.perturb(params, stream, online))
    }

    /// Takes a step with the loaded batch.
    fn improve(&mut self) -> Result<BatchLoss> {
        let (bound, huber, rule) = (self.config.max_abs_reward, self.config.huber, self.network.rule);
        self.misfits.tell_clipping(&self.batch.rewards, bound);
        self.batch.rewards.iter_mut().for_each(|reward| *reward = reward.clamp(-bound, bound));
        let weights = losses::importance_weights(&self.batch.probabilities, self.config.importance_exponent);
        let drawn = self.perturb();
        let count = self.actions.len() * rule.drawn();
        for taus in &mut self.taus {
            implicit::draw(count, &mut self.stream, taus);
        }
        let targets = self.targets();
        let Self { network, params, batch, actions, optimizer, noisy, taus: [taus, _], .. } = self;
        let selected = Selected { actions, weights: &weights };
        let [seen, _] = inputs(batch);
        let acting = noisy.as_ref().map_or(&*params, |[online, _]| online);
        let goal = Targets { targets: &targets, taus, huber };
        let [scratch, ..] = &mut self.scratch;
        let (found, mut gradient) = network.gradient(acting, seen, taus, scratch, |outputs, by_outputs| {
            rule.loss(outputs, selected, goal, by_outputs)
        });
        if let Some((noise, drawn)) = network.noise.as_ref().zip(drawn) {
            noise.pull_back(&drawn, &mut gradient);
        }
        let before = optimizer.steps();
        let norm = together::step(optimizer, params, &mut gradient, &self.peers)?;
        // The parameters already contain non-finite values, although the next loss may be finite.
        let is_finite = norm.is_finite() && found.loss.is_finite();
        if !is_finite || found.rows.iter().any(|row| !row.is_finite()) {
            return Err(RlError::Diverged { step: before + 1, loss: found.loss });
        }
        if before.is_multiple_of(self.config.target_update_period) {
            self.target.copy_from(params);
        }
        Ok(found)
    }
}

/// Returns the network's inputs for a batch: the first and the last observation of transitions.
fn inputs(batch: &Transitions) -> [Inputs<'_>; 2] {
    match batch.pictures() {
        Some(pictures) => pictures.map(Inputs::Bytes),
        None => [Inputs::Floats(&batch.observations), Inputs::Floats(&batch.next_observations)],
    }
}

impl Learner for DqnLearner {
    type Batch = Vec<SampleBatch>;

    fn learn(&mut self, batches: Vec<SampleBatch>) -> Result<Learnt> {
        self.batch.read(&batches)?;
        // Only samples of the agent's own experience count toward the samples per insert.
        let own = batches.iter().take(self.config.replay_shards);
        let samples = own.map(SampleBatch::len).sum::<usize>() as u64;
        self.network.actions.numbers(&self.batch.actions, &mut self.actions)?;
        drop(batches);
        let BatchLoss { loss, rows } = self.improve()?;
        let priorities = (&self.batch.keys[..], rows.iter().map(|row| row.abs()));
        Ok(learnt(priorities, self.config.priority_exponent, samples, loss))
    }

    fn weights(&self) -> Result<Weights> {
        weights::published(&self.params)
    }

    fn share(&mut self, peers: Peers) -> Result<()> {
        together::separate_stream(&mut self.stream, &peers);
        self.peers = peers;
        Ok(())
    }
}

/// The name that error messages use for the owner of the saved state.
const WHAT: &str = "a learner of DQN";

impl Saveable for DqnLearner {
    fn save(&mut self) -> Vec<u8> {
        saved::save(&mut self.parts())
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        saved::restore(WHAT, &mut self.parts(), bytes)
    }
}

impl DqnLearner {
    fn parts(&mut self) -> [Saved<'_>; 4] {
        let Self { target, params, optimizer, stream, .. } = self;
        [Saved::Stream(stream), Saved::Params(target), Saved::Params(params), Saved::Optimizer(optimizer)]
    }
}
