//! TD3+BC.

use relive_flow::Flow;
use relive_rl::plan::{Crew, Learn, Progress};
use relive_rl::{Agent, Policy, PolicyContext, Result, settings_of};
use relive_table::TableConfig;

use super::settings::{PolicyRule, Settings};
use crate::continuous::{Returns, TargetUpdate};
use crate::offline::Recorded;
use crate::settings::settings;

settings! {
    /// The settings of TD3+BC (Fujimoto and Gu 2021), for actions that are one bounded float32 array. The defaults are
    /// the paper's. The agent does not act: a run takes learner steps on the contents of its table.
    ///
    /// TD3+BC is [TD3](crate::Td3Config) with the policy loss −λ·q(s, π(s)) + (π(s) − a)², where λ = α / mean |q|, over
    /// normalized observations.
    pub struct Td3BcConfig {
        /// The number of transitions in a batch.
        pub batch_size: usize = 256,
        /// The agent's discount γ.
        pub discount: f32 = 0.99,
        /// The step size of Adam for the policy.
        pub policy_learning_rate: f32 = 3e-4,
        /// The step size of Adam for the critics.
        pub critic_learning_rate: f32 = 3e-4,
        /// The fraction by which the target networks move toward the online networks, τ.
        pub tau: f32 = 0.005,
        /// The number of critic updates per policy update.
        pub policy_period: u64 = 2,
        /// The standard deviation of the noise on the target policy's actions (target policy smoothing).
        pub target_noise: f32 = 0.2,
        /// The bound on the magnitude of that noise.
        pub target_noise_clip: f32 = 0.5,
        /// The weight of the values relative to imitation, α.
        pub alpha: f32 = 2.5,
        /// Whether observations are normalized to mean 0 and standard deviation 1.
        pub normalize_observations: bool = true,
        /// The sizes of the hidden layers of the policy.
        pub hidden: Vec<usize> = vec![256, 256],
        /// The sizes of the hidden layers of the critics.
        pub critic_hidden: Vec<usize> = vec![256, 256],
    }
}

impl Td3BcConfig {
    /// Returns the settings for a named environment: tuned settings if there are any, otherwise the defaults.
    #[must_use]
    pub fn for_environment(name: &str) -> Td3BcConfig {
        match name {
            "Pendulum-v1" => Td3BcConfig {
                batch_size: 128,
                discount: 0.95,
                alpha: 1.0,
                hidden: vec![64, 64],
                critic_hidden: vec![64, 64],
                ..Td3BcConfig::default()
            },
            _ => Td3BcConfig::default(),
        }
    }

    fn recorded(&self) -> Recorded {
        Recorded { batch_size: self.batch_size, discount: self.discount }
    }

    fn shared(&self) -> Settings {
        Settings {
            off_policy: self.recorded().off_policy(),
            policy_learning_rate: self.policy_learning_rate,
            critic_learning_rate: self.critic_learning_rate,
            critics: 2,
            returns: Returns::Value,
            target_update: TargetUpdate::Move { tau: self.tau },
            policy: PolicyRule {
                at_next: false,
                acts_by_target: false,
                period: self.policy_period,
                target_noise: [self.target_noise, self.target_noise_clip],
                beside_imitation: Some(self.alpha),
            },
            max_action_gradient: None,
            max_gradient_norm: None,
            noise: 0.0,
            noise_correlation: 0.0,
            normalize_observations: self.normalize_observations,
            hidden: self.hidden.clone(),
            critic_hidden: self.critic_hidden.clone(),
        }
    }
}

impl Agent for Td3BcConfig {
    fn name(&self) -> &'static str {
        "td3-bc"
    }

    fn settings(&self) -> Vec<(String, String)> {
        settings_of(self)
    }

    fn validate(&self) -> Result<()> {
        self.shared().validate()
    }

    fn tables(&self) -> Result<Vec<TableConfig>> {
        Ok(vec![self.recorded().table()?])
    }

    fn policy(&self, context: &PolicyContext<'_>) -> Result<Box<dyn Policy>> {
        self.shared().policy(context)
    }

    fn plan(&self, crew: &Crew) -> Result<Flow<Progress>> {
        let learning = self.recorded().batches(crew)?;
        Ok(learning.learn(self.shared().learner(crew)?))
    }
}
