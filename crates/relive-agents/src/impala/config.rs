//! IMPALA.

use relive_nn::Adam;

use super::settings::Settings;
use crate::settings::{bsuite_family, settings};
use crate::shared_agent::shared_agent;

settings! {
    /// The settings of IMPALA (Espeholt et al. 2018): workers run ahead of the learner, and V-trace corrects for the
    /// lag.
    ///
    /// Deviations from the paper: workers send fragments directly to the learner, without a queue, so that the lag is
    /// at most one fragment per worker; Adam replaces RMSProp, as in Acme; initial weights are orthogonal, scaled by
    /// 0.01 in the last layer; and, without an LSTM and without images, the policy and the value have their own layers,
    /// the last of which is not scaled for the value.
    pub struct ImpalaConfig {
        /// The number of environments of all workers together.
        pub num_envs: usize = 8,
        /// The number of steps in a fragment.
        pub sequence_length: usize = 10,
        /// The number of fragments in a batch; each fragment comes from one environment.
        pub batch_size: usize = 8,
        /// The agent's discount γ.
        pub discount: f32 = 0.99,
        /// λ of V-trace, which shortens traces; 1 leaves them unchanged.
        pub trace_decay: f32 = 1.0,
        /// The weight of the value loss, the squared error.
        pub value_cost: f32 = 0.5,
        /// The weight of the policy's entropy.
        pub entropy_cost: f32 = 0.01,
        /// Rewards are clipped to ± this value; not clipped unless set.
        pub max_abs_reward: Option<f32> = None,
        /// The bound on the gradient's norm; none unless set.
        pub max_gradient_norm: Option<f32> = None,
        /// The step size of Adam.
        pub learning_rate: f32 = 1e-3,
        /// The constant ε of Adam.
        pub adam_epsilon: f32 = 1e-8,
        /// Whether the step size decays linearly to 0 over the run.
        pub anneal: bool = false,
        /// The sizes of the hidden layers.
        pub hidden: Vec<usize> = vec![64, 64],
        /// The number of units of the LSTM after the hidden layers; 0 for no LSTM. With an LSTM, or if observations are
        /// images, the policy and the value share all layers.
        pub lstm_units: usize = 0,
    }
}

impl ImpalaConfig {
    /// Returns the settings for a named environment: tuned settings if there are any, otherwise the defaults.
    #[must_use]
    pub fn for_environment(name: &str) -> ImpalaConfig {
        let family = bsuite_family(name);
        if name == "CartPole-v1" || family == Some("cartpole") {
            return ImpalaConfig {
                sequence_length: 5,
                learning_rate: 2e-3,
                adam_epsilon: 1e-5,
                anneal: true,
                max_gradient_norm: Some(1.0),
                ..ImpalaConfig::default()
            };
        }
        let Some(family) = family else { return ImpalaConfig::default() };
        // Batches are small, because there are few episodes. Small gradients must not be scaled to large steps, which
        // would undo what was learned.
        ImpalaConfig {
            num_envs: 2,
            batch_size: 2,
            sequence_length: if family == "catch" { 10 } else { 20 },
            learning_rate: 3e-3,
            adam_epsilon: 1e-4,
            anneal: true,
            max_gradient_norm: Some(1.0),
            hidden: vec![50, 50],
            lstm_units: 32,
            ..ImpalaConfig::default()
        }
    }

    fn shared(&self) -> Settings {
        Settings {
            num_envs: self.num_envs,
            sequence_length: self.sequence_length,
            batch_size: self.batch_size,
            epochs: 1,
            discount: self.discount,
            trace_decay: self.trace_decay,
            clip: None,
            value_cost: self.value_cost,
            entropy_cost: self.entropy_cost,
            max_abs_reward: self.max_abs_reward,
            max_gradient_norm: self.max_gradient_norm,
            adam: Adam { learning_rate: self.learning_rate, epsilon: self.adam_epsilon, ..Adam::default() },
            anneal: self.anneal,
            normalize_advantages: false,
            hidden: self.hidden.clone(),
            lstm_units: self.lstm_units,
        }
    }
}

shared_agent!(ImpalaConfig, "impala", without_tables);
