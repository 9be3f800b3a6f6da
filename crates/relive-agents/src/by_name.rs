//! Agents by their names.

use std::sync::Arc;

use relive_rl::{Agent, Result, RlError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::setting_value;

/// A short description of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About {
    /// The name by which the agent is requested.
    pub name: &'static str,
    /// The paper that introduced it.
    pub paper: &'static str,
    /// The actions that it supports: `discrete`, `continuous` for an array of numbers, or `any` for both.
    pub actions: &'static str,
    /// The contents of its tables.
    pub replay: &'static str,
    /// How the agent learns.
    pub text: &'static str,
}

/// The contents of the tables of offline agents.
const RECORDED: &str = "recorded transitions";

impl About {
    /// Returns whether the agent acts; otherwise it only learns from recorded episodes.
    #[must_use]
    pub fn acts(&self) -> bool {
        self.replay != RECORDED
    }
}

/// The code that depends on an agent's name, generated from one list of each agent's name, settings, paper, actions,
/// table contents, and way of learning.
macro_rules! agents {
    ($($name:literal, $config:ty, $paper:literal, $actions:literal, $replay:expr, $text:literal;)*) => {
        /// The names of all agents.
        pub const NAMES: &[&str] = &[$($name),*];

        const EXPECTED: &str = concat!("one of" $(, " ", $name)*);

        /// Returns the description of a named agent, or `None` if no agent has this name.
        #[must_use]
        pub fn about(name: &str) -> Option<About> {
            match name {
                $($name => {
                    let (paper, actions, replay, text) = ($paper, $actions, $replay, $text);
                    Some(About { name: $name, paper, actions, replay, text })
                })*
                _ => None,
            }
        }

        /// Returns the named agent with the given settings, a JSON object; missing settings keep their defaults.
        ///
        /// # Errors
        /// [`Setting`](RlError::Setting): no agent or no setting has this name, or a setting has a different type.
        ///
        /// ```
        /// let agent = relive_agents::from_json("ppo", r#"{"epochs": 4}"#)?;
        /// assert_eq!(agent.name(), "ppo");
        /// assert!(relive_agents::from_json("ppo", r#"{"epoch": 4}"#).is_err());
        /// # Ok::<(), relive_rl::RlError>(())
        /// ```
        pub fn from_json(name: &str, settings: &str) -> Result<Arc<dyn Agent>> {
            match name {
                $($name => agent_of::<$config>(settings),)*
                _ => Err(unknown(name)),
            }
        }

        /// Returns the settings of a named agent for a named environment, as a JSON object: tuned settings if there are
        /// any, otherwise the defaults.
        ///
        /// # Errors
        /// [`Setting`](RlError::Setting): no agent has this name.
        pub fn preset(name: &str, environment: &str) -> Result<String> {
            match name {
                $($name => Ok(text(&<$config>::for_environment(environment))),)*
                _ => Err(unknown(name)),
            }
        }
    };
}

agents! {
    "a2c", crate::A2cConfig, "Mnih et al. 2016", "any", "none", "Advantage actor-critic";
    "a3c", crate::A3cConfig, "Mnih et al. 2016", "any", "none", "Asynchronous advantage actor-critic: each worker computes gradients";
    "apex", crate::ApexConfig, "Horgan et al. 2018", "discrete", "transitions, prioritized", "DQN with many \
        actors that explore to different degrees";
    "appo", crate::AppoConfig, "Schulman et al. 2017, Espeholt et al. 2018", "any", "none", "PPO whose workers run ahead";
    "bc", crate::BcConfig, "Pomerleau 1991", "any", RECORDED, "Behavioral cloning: imitates recorded behavior";
    "bcq", crate::BcqConfig, "Fujimoto et al. 2019b", "discrete", RECORDED, "Q-learning from recorded data, \
        restricted to actions that are likely there";
    "cql", crate::CqlConfig, "Kumar et al. 2020", "continuous", RECORDED, "Conservative Q-learning from recorded data";
    "crr", crate::CrrConfig, "Wang et al. 2020", "continuous", RECORDED, "Critic-regularized regression on recorded data";
    "d4pg", crate::D4pgConfig, "Barth-Maron et al. 2018", "continuous", "transitions", "DDPG with a distribution of returns";
    "ddpg", crate::DdpgConfig, "Lillicrap et al. 2016", "continuous", "transitions", "Deep deterministic policy gradient";
    "dmpo", crate::DmpoConfig, "Abdolmaleki et al. 2018", "continuous", "transitions", "MPO with a distribution of returns";
    "dqfd", crate::DqfdConfig, "Hester et al. 2018", "discrete", "transitions and demonstrations", "DQN from \
        demonstrations and its own experience";
    "dqn", crate::DqnConfig, "Mnih et al. 2015, van Hasselt et al. 2016", "discrete", "transitions, prioritized", "Deep Q-network: double Q-learning over several steps";
    "impala", crate::ImpalaConfig, "Espeholt et al. 2018", "any", "none", "Actor-critic whose workers run ahead, corrected by V-trace";
    "iql", crate::IqlConfig, "Kostrikov et al. 2022", "continuous", RECORDED, "Implicit Q-learning from recorded data";
    "mcts", crate::MctsConfig, "Silver et al. 2018", "discrete", "transitions", "Search in the environment or \
        in a learned model, guided by a network";
    "mpo", crate::MpoConfig, "Abdolmaleki et al. 2018", "continuous", "transitions", "Maximum a posteriori policy optimization";
    "ppo", crate::PpoConfig, "Schulman et al. 2017", "any", "none", "Proximal policy optimization";
    "r2d2", crate::R2d2Config, "Kapturowski et al. 2019", "discrete", "sequences, prioritized", "Q-learning with a memory";
    "r2d3", crate::R2d3Config, "Paine et al. 2019", "discrete", "sequences and demonstrations", "R2D2 from \
        demonstrations and its own experience";
    "rainbow", crate::RainbowConfig, "Hessel et al. 2018", "discrete", "transitions, prioritized", "DQN with a distribution of returns, noisy networks and a duelling head";
    "sac", crate::SacConfig, "Haarnoja et al. 2018", "continuous", "transitions", "Soft actor-critic";
    "td3", crate::Td3Config, "Fujimoto et al. 2018", "continuous", "transitions", "Twin delayed DDPG";
    "td3-bc", crate::Td3BcConfig, "Fujimoto and Gu 2021", "continuous", RECORDED, "TD3 combined with imitation, from recorded data";
}

/// Returns the default settings, overridden by the given ones.
fn agent_of<A: Agent + Default + Serialize + DeserializeOwned + 'static>(
    settings: &str,
) -> Result<Arc<dyn Agent>> {
    let refused = |error: serde_json::Error| {
        RlError::setting("the text of the settings", error, "a JSON object of the agent's settings")
    };
    let given: Map<String, Value> = serde_json::from_str(settings).map_err(refused)?;
    // The conversion goes through text in order to preserve the digits of numbers.
    let mut all: Map<String, Value> = serde_json::from_str(&text(&A::default())).map_err(refused)?;
    merge(&mut all, given);
    setting_value::read::<A>(&Value::Object(all)).map(|agent| Arc::new(agent) as Arc<dyn Agent>)
}

/// Overrides settings with the given ones; a group of settings is merged, not replaced.
fn merge(all: &mut Map<String, Value>, given: Map<String, Value>) {
    for (name, value) in given {
        match (all.get_mut(&name), value) {
            (Some(Value::Object(group)), Value::Object(given)) => merge(group, given),
            (_, value) => drop(all.insert(name, value)),
        }
    }
}

fn text(settings: &impl Serialize) -> String {
    // All settings are numbers, strings or lists, which JSON can represent.
    serde_json::to_string(settings).unwrap_or_default()
}

fn unknown(name: &str) -> RlError {
    RlError::setting("the agent", name, EXPECTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_agent_is_created_by_its_name_and_documented() {
        for name in NAMES {
            for environment in
                ["", "CartPole-v1", "Pendulum-v1", "catch/0", "cartpole/0", "deep_sea/0", "pixels/catch"]
            {
                let agent = from_json(name, &preset(name, environment).unwrap()).unwrap();
                assert_eq!(agent.name(), *name);
                agent.validate().unwrap();
            }
            assert!(about(name).is_some_and(|about| !about.text.is_empty()));
        }
        assert_ne!(preset("impala", "CartPole-v1").unwrap(), preset("impala", "").unwrap());
        let error = from_json("sarsa", "{}").map(drop).unwrap_err().to_string();
        assert!(error.contains("sarsa") && NAMES.iter().all(|name| error.contains(name)), "{error}");
        assert!(preset("sarsa", "").is_err() && about("sarsa").is_none());
        let still: Vec<_> =
            NAMES.iter().filter(|name| about(name).is_some_and(|about| !about.acts())).collect();
        assert_eq!(still, [&"bc", &"bcq", &"cql", &"crr", &"iql", &"td3-bc"]);
    }
}
