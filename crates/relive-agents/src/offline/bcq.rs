//! Settings and networks of BCQ.

use relive_env::EnvironmentSpec;
use relive_nn::{Key, Layout, Network, Params};
use relive_rl::{Features, Result};

use super::replay::Recorded;
use crate::actions::Discrete;
use crate::continuous::{Body, Layers, Role};
use crate::images::plain_numbers;
use crate::settings::settings;

settings! {
    /// The settings of discrete BCQ (Fujimoto et al. 2019, "Benchmarking batch deep reinforcement learning
    /// algorithms"), for one discrete action. The agent does not act: a run takes learner steps on the contents of its
    /// table.
    ///
    /// A network G imitates the recorded actions. Only actions that are more than τ times as likely as the likeliest
    /// one are permitted. The target is r + γ·q̄(s', a'), where a' has the greatest q(s', a') among permitted actions
    /// (equation 4); the policy chooses the best permitted action. The loss is Huber(target − q), plus −ln G(a|s), plus
    /// 0.01 times the mean square of G's logits, as in the authors' program.
    ///
    /// Deviations from the paper: the target network moves a little after each batch, as in the authors' program for
    /// observations that are not images; q and G share no layers.
    pub struct BcqConfig {
        /// The number of transitions in a batch.
        pub batch_size: usize = 256,
        /// The agent's discount γ.
        pub discount: f32 = 0.99,
        /// The step size of Adam.
        pub learning_rate: f32 = 3e-4,
        /// The fraction by which the target network moves toward the network after each batch.
        pub tau: f32 = 0.005,
        /// The threshold τ of the paper: an action is permitted if it is more than τ times as likely as the likeliest
        /// one. 0 gives Q-learning, 1 gives imitation.
        pub threshold: f32 = 0.3,
        /// The sizes of the hidden layers of each network.
        pub hidden: Vec<usize> = vec![256, 256],
    }
}

impl BcqConfig {
    /// Returns the settings for a named environment. They are always the defaults.
    #[must_use]
    pub fn for_environment(_name: &str) -> BcqConfig {
        BcqConfig::default()
    }

    pub(super) fn recorded(&self) -> Recorded {
        Recorded { batch_size: self.batch_size, discount: self.discount }
    }
}

/// The network for the values, and the network that imitates.
#[derive(Debug, Clone)]
pub(super) struct Networks {
    pub(super) features: Features,
    pub(super) actions: Discrete,
    pub(super) values: Network,
    pub(super) imitation: Network,
}

impl Networks {
    /// Creates the networks for an environment with one discrete action, and their initial parameters.
    pub(super) fn of(config: &BcqConfig, spec: &EnvironmentSpec, key: Key) -> Result<(Networks, Params)> {
        let (features, actions) = (plain_numbers(&spec.observations)?, Discrete::expect(spec)?);
        let layers = Layers { body: Body::Relu, hidden: &config.hidden };
        let (mut layout, shape) = (Layout::new(), (features.width(), actions.count));
        let values = layers.network(&mut layout, "values", shape, Role::Linear)?;
        let imitation = layers.network(&mut layout, "imitation", shape, Role::Linear)?;
        Ok((Networks { features, actions, values, imitation }, layout.init(key.child("bcq"))))
    }
}

/// Sets the values of actions that are not permitted below all others. An action is permitted if its probability
/// exceeds the given share of the likeliest action's probability.
pub(super) fn constrain(values: &mut [f32], logits: &[f32], actions: usize, threshold: f32) {
    let least = threshold.ln();
    for (values, logits) in values.chunks_exact_mut(actions).zip(logits.chunks_exact(actions)) {
        let likeliest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        for (value, logit) in values.iter_mut().zip(logits) {
            // The likeliest action is always permitted, even if the share is 1.
            if *logit < likeliest && logit - likeliest <= least {
                *value = f32::NEG_INFINITY;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unlikely_actions_are_not_chosen() {
        let logits = [0.5_f32.ln(), 0.4_f32.ln(), 0.1_f32.ln()];
        let chosen = |threshold| {
            let mut values = [1.0, 2.0, 3.0];
            constrain(&mut values, &logits, 3, threshold);
            values.map(f32::is_finite)
        };
        assert_eq!(chosen(0.0), [true, true, true]);
        assert_eq!(chosen(0.3), [true, true, false], "0.1 is a fifth of the highest probability");
        assert_eq!(chosen(0.9), [true, false, false]);
        assert_eq!(chosen(1.0), [true, false, false]);
    }
}
