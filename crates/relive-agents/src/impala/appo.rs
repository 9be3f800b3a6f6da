//! Asynchronous proximal policy optimization.

use relive_nn::Adam;

use super::settings::Settings;
use crate::settings::settings;
use crate::shared_agent::shared_agent;

settings! {
    /// The settings of APPO, as in RLlib: PPO's clipped loss (Schulman et al. 2017) over fragments from workers that
    /// run ahead of the learner, with V-trace's advantages (Espeholt et al. 2018).
    ///
    /// Deviations from RLlib: ratios are relative to the policy that acted, with no target network in between; each
    /// batch is one minibatch.
    pub struct AppoConfig {
        /// The number of environments of all workers together.
        pub num_envs: usize = 8,
        /// The number of steps in a fragment.
        pub sequence_length: usize = 32,
        /// The number of fragments in a batch; each fragment comes from one environment.
        pub batch_size: usize = 8,
        /// The agent's discount γ.
        pub discount: f32 = 0.99,
        /// λ of V-trace, which shortens traces; 1 leaves them unchanged.
        pub trace_decay: f32 = 0.95,
        /// The number of gradient steps for each batch.
        pub epochs: usize = 10,
        /// The clip range ε of the ratio of the new to the old probability. Moving the ratio beyond 1 ± ε gains
        /// nothing.
        pub clip: f32 = 0.2,
        /// Whether the advantages of a batch are normalized to mean 0 and standard deviation 1.
        pub normalize_advantages: bool = true,
        /// The weight of the value loss, the squared error.
        pub value_cost: f32 = 0.1,
        /// The weight of the policy's entropy.
        pub entropy_cost: f32 = 0.0,
        /// Rewards are clipped to ± this value; not clipped unless set.
        pub max_abs_reward: Option<f32> = None,
        /// The bound on the gradient's norm; none unless set.
        pub max_gradient_norm: Option<f32> = Some(40.0),
        /// The step size of Adam.
        pub learning_rate: f32 = 1e-3,
        /// The constant ε of Adam.
        pub adam_epsilon: f32 = 1e-8,
        /// Whether the step size decays linearly to 0 over the run.
        pub anneal: bool = false,
        /// The sizes of the hidden layers.
        pub hidden: Vec<usize> = vec![128],
        /// The number of units in the LSTM after the hidden layers; 0 for no LSTM. With an LSTM, or if observations are
        /// images, the policy and the value share all layers.
        pub lstm_units: usize = 0,
    }
}

impl AppoConfig {
    /// Returns the settings for a named environment: tuned settings if there are any, otherwise the defaults.
    #[must_use]
    pub fn for_environment(name: &str) -> AppoConfig {
        match name {
            "CartPole-v1" => {
                AppoConfig { learning_rate: 3e-3, discount: 0.98, trace_decay: 1.0, ..AppoConfig::default() }
            }
            _ => AppoConfig::default(),
        }
    }

    fn shared(&self) -> Settings {
        Settings {
            num_envs: self.num_envs,
            sequence_length: self.sequence_length,
            batch_size: self.batch_size,
            epochs: self.epochs,
            discount: self.discount,
            trace_decay: self.trace_decay,
            clip: Some(self.clip),
            value_cost: self.value_cost,
            entropy_cost: self.entropy_cost,
            max_abs_reward: self.max_abs_reward,
            max_gradient_norm: self.max_gradient_norm,
            adam: Adam { learning_rate: self.learning_rate, epsilon: self.adam_epsilon, ..Adam::default() },
            anneal: self.anneal,
            normalize_advantages: self.normalize_advantages,
            hidden: self.hidden.clone(),
            lstm_units: self.lstm_units,
        }
    }
}

shared_agent!(AppoConfig, "appo", without_tables);
