//! The loss of MPO (Abdolmaleki et al. 2018), with decoupled bounds on means and standard deviations, and a penalty on
//! out-of-bounds actions.

use crate::Layout;
use crate::heads::Gaussians;
use crate::params::Init;
use crate::tape::{self, Tensor, Weights, activation};

/// The lower bound on raw dual variables; softplus hardly changes below it.
pub(super) const MIN_RAW: f32 = -18.0;
/// The number added to dual variables so that they stay positive.
pub(super) const MIN_DUAL: f32 = 1e-8;

/// The bounds of an [`MpoLoss`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mpo {
    /// The bound on the distance of the non-parametric policy from the target policy.
    pub epsilon: f32,
    /// The bound on this distance for the penalty on actions outside [−1, 1].
    pub epsilon_penalty: f32,
    /// The bound on the KL divergence of means, per dimension.
    pub epsilon_mean: f32,
    /// The bound on the KL divergence of standard deviations, per dimension.
    pub epsilon_stddev: f32,
}

impl Default for Mpo {
    /// Returns the bounds 0.1, 1e-3, 2.5e-3 and 1e-6.
    fn default() -> Self {
        Self { epsilon: 0.1, epsilon_penalty: 1e-3, epsilon_mean: 2.5e-3, epsilon_stddev: 1e-6 }
    }
}

/// The dual variables: leaves learned along with the policy.
#[derive(Debug, Clone)]
pub struct MpoDuals {
    name: String,
}

impl MpoDuals {
    /// Adds the leaves under a name. Temperatures start at 10, and multipliers start at 10 for means and at 1,000 for
    /// standard deviations (all before softplus).
    pub fn new(layout: &mut Layout, name: &str, dimensions: usize) -> Self {
        let mut leaf = |leaf: &str, len, value| {
            layout.add(&format!("{name}/{leaf}"), &[len], Init::Constant(value));
        };
        leaf("log_temperature", 1, 10.0);
        leaf("log_penalty_temperature", 1, 10.0);
        leaf("log_alpha_mean", dimensions, 10.0);
        leaf("log_alpha_stddev", dimensions, 1000.0);
        Self { name: name.to_owned() }
    }

    /// Returns the number of values in all leaves, for actions with the given number of dimensions. The values are two
    /// temperatures, followed by the multipliers of means and of standard deviations.
    #[must_use]
    pub fn len(dimensions: usize) -> usize {
        2 + 2 * dimensions
    }

    /// Returns a dual variable: softplus of its leaf.
    fn get(&self, weights: &Weights<'_>, leaf: &str) -> Tensor<1> {
        let raw: Tensor<1> = weights.leaf(&format!("{}/{leaf}", self.name));
        activation::softplus(raw.clamp_min(MIN_RAW), 1.0) + MIN_DUAL
    }
}

/// The inputs of the loss, apart from the policies.
#[derive(Debug, Clone, Copy)]
pub struct MpoBatch<'a> {
    /// Actions sampled from the target policy, `[samples, batch, dimensions]`.
    pub actions: &'a [f32],
    /// The values of the actions, `[samples, batch]`.
    pub q: &'a [f32],
    /// The number of samples per state.
    pub samples: usize,
}

/// MPO's loss on the tape, and its parts.
#[derive(Debug, Clone)]
pub struct MpoLoss {
    /// The loss, to be minimized over the policy's parameters and the dual variables.
    pub loss: Tensor<1>,
    /// The part that fits the policy to the weighted actions.
    pub policy: f32,
    /// The part that moves the temperatures.
    pub temperature: f32,
    /// The part that moves the multipliers.
    pub alpha: f32,
    /// The KL divergence of the means divided by its bound, averaged over dimensions.
    pub kl_mean_rel: f32,
    /// The KL divergence of the standard deviations divided by its bound, averaged over dimensions.
    pub kl_stddev_rel: f32,
}

impl Mpo {
    /// Returns the loss of a batch of states. `duals` are tracked [`Weights`] with the leaves of `names`; `target` is a
    /// constant.
    ///
    /// # Panics
    /// If the slices and policies do not belong to the same batch, or `duals` lacks the leaves.
    pub fn loss(
        &self,
        (names, duals): (&MpoDuals, &Weights<'_>),
        online: &Gaussians,
        target: &Gaussians,
        batch: MpoBatch<'_>,
    ) -> MpoLoss {
        let [states, dimensions] = online.mean.dims();
        let actions = tape::constant(batch.actions.to_vec(), [batch.samples, states, dimensions]);
        let q = tape::constant(batch.q.to_vec(), [batch.samples, states]);
        let eta = names.get(duals, "log_temperature");
        let penalty_eta = names.get(duals, "log_penalty_temperature");
        let cost = out_of_bounds(&actions);
        let weights = weights(&q, &eta) + weights(&cost, &penalty_eta);
        let temperature = temperature_loss(&q, eta, self.epsilon)
            + temperature_loss(&cost, penalty_eta, self.epsilon_penalty);
        let moved = [
            Gaussians { mean: online.mean.clone(), stddev: target.stddev.clone() },
            Gaussians { mean: target.mean.clone(), stddev: online.stddev.clone() },
        ];
        let fits = moved.each_ref().map(|policy| fit(&weights, policy.log_prob(&actions)));
        let policy = fits.into_iter().reduce(|a, b| a + b).expect("two policies");
        let bounds = [("log_alpha_mean", self.epsilon_mean), ("log_alpha_stddev", self.epsilon_stddev)];
        let mut loss = policy.clone() + temperature.clone();
        let (mut alpha_loss, mut relative) = (0.0, [0.0; 2]);
        for (index, ((leaf, epsilon), policy)) in bounds.into_iter().zip(&moved).enumerate() {
            let kl = target.divergence(policy);
            let alpha = names.get(duals, leaf);
            let dual = (alpha.clone() * (-kl.clone().detach() + epsilon)).sum();
            relative[index] = scalar(kl.clone().mean()) / epsilon;
            alpha_loss += scalar(dual.clone());
            loss = loss + (alpha.detach() * kl).sum() + dual;
        }
        let [kl_mean_rel, kl_stddev_rel] = relative;
        let (policy, temperature) = (scalar(policy), scalar(temperature));
        MpoLoss { loss, policy, temperature, alpha: alpha_loss, kl_mean_rel, kl_stddev_rel }
    }
}

/// Returns −‖a − clip(a, −1, 1)‖₂ of each action.
fn out_of_bounds(actions: &Tensor<3>) -> Tensor<2> {
    let beyond = actions.clone() - actions.clone().clamp(-1.0, 1.0);
    -beyond.powi_scalar(2).sum_dim(2).sqrt().squeeze_dim(2)
}

/// Returns the softmax of q/η over samples, without a gradient.
fn weights(q: &Tensor<2>, eta: &Tensor<1>) -> Tensor<2> {
    activation::softmax(q.clone() / eta.clone().unsqueeze(), 0).detach()
}

/// Returns η·(ε + mean logsumexp(q/η) − ln samples).
fn temperature_loss(q: &Tensor<2>, eta: Tensor<1>, epsilon: f32) -> Tensor<1> {
    let [samples, _] = q.dims();
    let scaled = q.clone() / eta.clone().unsqueeze();
    let max = scaled.clone().max_dim(0).detach();
    let total = (scaled - max.clone()).exp().sum_dim(0).log() + max;
    eta * (total.mean() + (epsilon - super::rows::count(samples).ln()))
}

/// Returns −mean over states of Σ w·ln π.
fn fit(weights: &Tensor<2>, log_prob: Tensor<2>) -> Tensor<1> {
    -(weights.clone() * log_prob).sum_dim(0).mean()
}

fn scalar(tensor: Tensor<1>) -> f32 {
    tape::values(tensor)[0]
}
