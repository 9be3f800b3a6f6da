//! Gradient steps over batches of fragments.

use relive_env::State;
use relive_nn::{Optimizer, Params, Steps};
use relive_rl::learners::Peers;
use relive_rl::plan::Crew;
use relive_rl::{Learner, Learnt, Result, RlError, Rollout, Saveable, Weights};

use super::corrected::{Corrected, Fragments};
use super::network::VTraceNetwork;
use super::settings::Settings;
use crate::actor_critic::{Head, MetricSums, PolicyLoss, PolicyMetrics, share_left, standardize, value_loss};
use crate::saved::{self, Saved};
use crate::weights;

/// Learns a policy and a value function from fragments that were produced with older weights.
#[derive(Debug)]
pub(super) struct VTraceLearner {
    settings: Settings,
    network: VTraceNetwork,
    params: Params,
    optimizer: Optimizer,
    env_steps: u64,
    budget: u64,
    fragments: Fragments,
    gradient: Vec<f32>,
    peers: Peers,
}

impl VTraceLearner {
    pub(super) fn new(settings: &Settings, crew: &Crew) -> Result<VTraceLearner> {
        let (network, params) = VTraceNetwork::new(settings, crew.spec(), crew.learner_key())?;
        let adam = Optimizer::adam(settings.adam, &params);
        Ok(VTraceLearner {
            optimizer: adam.max_gradient_norm(settings.max_gradient_norm),
            env_steps: 0,
            budget: crew.env_steps(),
            fragments: Fragments::default(),
            gradient: vec![0.0; params.values().len()],
            peers: Peers::alone(),
            settings: settings.clone(),
            network,
            params,
        })
    }

    /// Writes the gradient for the batch to the gradient buffer. Returns the policy's metrics and the value loss.
    fn differentiate(&mut self) -> (PolicyMetrics, f32) {
        let Self { settings, network, params, fragments, gradient, .. } = self;
        let steps = Steps::new(fragments.rows, &fragments.starts);
        let input = (fragments.observations.inputs(), steps, &fragments.state);
        let log_std = &params.values()[network.log_std.clone()];
        let mut by_log_std = vec![0.0; log_std.len()];
        let found = network.body.gradient_into(params, input, gradient, |outputs, by_outputs| {
            let mut loss =
                Loss { settings, head: &network.head, log_std, fragments, by_log_std: &mut by_log_std };
            loss.of_outputs(outputs, by_outputs)
        });
        gradient[network.log_std.clone()].copy_from_slice(&by_log_std);
        found
    }

    /// Like [`differentiate`](Self::differentiate), but over the given number of cells of all learners.
    fn shared(&mut self, cells: usize) -> Result<(PolicyMetrics, f32)> {
        let own = self.fragments.learnable.len();
        let (policy, of_values) = match own {
            0 => {
                self.gradient.fill(0.0);
                (PolicyMetrics::default(), 0.0)
            }
            _ => self.differentiate(),
        };
        policy.mean_over_cells(of_values, &mut self.gradient, (own, cells), &self.peers)
    }
}

/// The loss of a batch.
struct Loss<'a> {
    settings: &'a Settings,
    head: &'a Head,
    log_std: &'a [f32],
    fragments: &'a Fragments,
    by_log_std: &'a mut [f32],
}

impl Loss<'_> {
    /// Returns the loss for the outputs of all observations, and its gradient with respect to these outputs.
    fn of_outputs(&mut self, outputs: &[f32], by_outputs: &mut [f32]) -> (PolicyMetrics, f32) {
        let Self { settings, head, log_std, fragments, by_log_std } = self;
        let (numbers, cells) = (head.outputs(), &fragments.learnable);
        let width = numbers + 1;
        let (mut of_policy, mut values) = (Vec::new(), Vec::new());
        for row in outputs.chunks_exact(width) {
            of_policy.extend_from_slice(&row[..numbers]);
            values.push(row[numbers]);
        }
        let taken = (&fragments.choices[..], &fragments.drawn[..]);
        let (mut now, mut corrected) = (Vec::new(), Corrected::default());
        head.log_probabilities((&of_policy, log_std), taken, &mut now);
        fragments.corrected(&values, &now, settings, &mut corrected);

        let mut advantages = gather(cells, &corrected.advantages, 1);
        if settings.normalize_advantages {
            standardize(&mut advantages);
        }
        let old = gather(cells, &fragments.log_probabilities, 1);
        let (clip, entropy_cost) = (settings.clip, settings.entropy_cost);
        let loss = PolicyLoss { old: &old, advantages: &advantages, clip, entropy_cost };
        let of_cells = gather(cells, &of_policy, numbers);
        let mut by_policy = vec![0.0; of_cells.len()];
        let found = match head {
            Head::Categorical(choices) => {
                let counts = choices.counts();
                let chosen = gather(cells, &fragments.choices, counts.len());
                loss.categorical(counts, (&of_cells, &chosen), &mut by_policy)
            }
            Head::Normal { .. } => {
                let drawn = gather(cells, &fragments.drawn, numbers);
                loss.normal((&of_cells, log_std), &drawn, &mut by_policy, by_log_std)
            }
        };
        let mut by_values = vec![0.0; cells.len()];
        let (values, returns) = (gather(cells, &values, 1), gather(cells, &corrected.returns, 1));
        let of_values = value_loss(&values, &returns, settings.value_cost, &mut by_values);
        for ((cell, by_policy), by_value) in cells.iter().zip(by_policy.chunks_exact(numbers)).zip(by_values)
        {
            let row = &mut by_outputs[cell * width..(cell + 1) * width];
            row[..numbers].copy_from_slice(by_policy);
            row[numbers] = by_value;
        }
        (found, of_values)
    }
}

/// Returns the numbers of these cells, given those of all cells, `[cells, width]`.
fn gather<T: Copy>(cells: &[usize], from: &[T], width: usize) -> Vec<T> {
    cells.iter().flat_map(|cell| &from[cell * width..(cell + 1) * width]).copied().collect()
}

impl Learner for VTraceLearner {
    type Batch = Rollout;

    fn learn(&mut self, rollout: Rollout) -> Result<Learnt> {
        let cells = rollout.learnable().count();
        let rollout = match self.peers.is_alone() {
            true => rollout,
            false => rollout.of_rows(self.peers.part(rollout.rows))?,
        };
        self.fragments.fill(&self.network, &rollout, &self.settings)?;
        drop(rollout);
        let left = share_left(self.settings.anneal, self.env_steps, self.budget);
        let mut sums = MetricSums::default();
        for _ in 0..self.settings.epochs {
            let (found, of_values) = self.shared(cells)?;
            self.optimizer.set_learning_rate(self.settings.adam.learning_rate * left);
            let norm = self.optimizer.step(&mut self.params, &self.gradient);
            let loss = found.loss + of_values;
            if !(norm.is_finite() && loss.is_finite()) {
                return Err(RlError::Diverged { step: self.optimizer.steps(), loss });
            }
            sums.add(found, of_values, cells);
        }
        self.env_steps += cells as u64;
        let (steps, samples) = (sums.minibatches, sums.cells);
        Ok(Learnt { steps, samples, metrics: sums.metrics(), priorities: Vec::new() })
    }

    fn weights(&self) -> Result<Weights> {
        weights::published(&self.params)
    }

    fn warm_start(&mut self, state: &[u8]) -> Result<()> {
        self.restore(state)?;
        self.env_steps = 0;
        Ok(())
    }

    /// Each learner uses its own fragments of a batch.
    fn share(&mut self, peers: Peers) -> Result<()> {
        let count = peers.count() as usize;
        if count > self.settings.batch_size {
            let expected = format!(
                "at most batch_size, {}, the number of fragments in a batch",
                self.settings.batch_size
            );
            return Err(RlError::setting("learners", count, expected));
        }
        self.peers = peers;
        Ok(())
    }
}

/// The name that error messages use for the owner of the saved state.
const WHAT: &str = "a learner by V-trace";

impl Saveable for VTraceLearner {
    fn save(&mut self) -> Vec<u8> {
        let Self { env_steps, params, optimizer, .. } = self;
        let mut fields = |state: &mut State<'_>| state.field(env_steps);
        saved::save(&mut [Saved::Fields(&mut fields), Saved::Params(params), Saved::Optimizer(optimizer)])
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        let Self { env_steps, params, optimizer, .. } = self;
        let mut fields = |state: &mut State<'_>| state.field(env_steps);
        let parts = &mut [Saved::Fields(&mut fields), Saved::Params(params), Saved::Optimizer(optimizer)];
        saved::restore(WHAT, parts, bytes)
    }
}
