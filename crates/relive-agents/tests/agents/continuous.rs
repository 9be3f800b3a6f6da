//! Agents that learn from a table and act with an array of numbers.

use std::sync::Arc;

use relive_agents::{D4pgConfig, DdpgConfig, DmpoConfig, MpoConfig, SacConfig, Td3Config};
use relive_rl::Agent;

use crate::common::small_sac;

/// Returns each of these agents in a small form, with some of the shared settings.
pub(crate) fn all() -> Vec<(Arc<dyn Agent>, &'static [&'static str])> {
    macro_rules! small {
        ($config:ident, $samples_per_insert:expr, { $($field:ident: $value:expr),* }) => {
            Arc::new($config {
                batch_size: 16,
                samples_per_insert: $samples_per_insert,
                min_replay_size: 50,
                hidden: vec![16],
                critic_hidden: vec![16],
                $($field: $value,)*
                ..$config::default()
            })
        };
    }
    let redq = SacConfig { critics: 3, normalize_observations: true, noise_correlation: 0.5, ..small_sac() };
    let pendulum: &[&str] = &["Pendulum-v1"];
    vec![
        (Arc::new(small_sac()), pendulum),
        (Arc::new(redq), &["control/cartpole-swingup"]),
        (small!(DdpgConfig, 8.0, { target_update_period: 10 }), pendulum),
        (small!(Td3Config, 8.0, { noise_correlation: 0.9 }), pendulum),
        (small!(D4pgConfig, 8.0, { normalize_observations: true, atoms: 11 }), pendulum),
        (small!(MpoConfig, 8.0, { samples: 5, target_policy_period: 10 }), pendulum),
        (small!(DmpoConfig, 8.0, { samples: 5, atoms: 11, normalize_observations: true }), pendulum),
    ]
}
