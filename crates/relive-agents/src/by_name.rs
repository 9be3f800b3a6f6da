//! Agents by their names.

use std::sync::Arc;

use relive_rl::{Agent, Result, RlError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Everything that goes by an agent's name, from one list: its name, its settings, and what it is in a few words.
macro_rules! agents {
    ($($name:literal, $config:ty, $about:literal;)*) => {
        /// The names of all agents.
        pub const NAMES: &[&str] = &[$($name),*];

        const EXPECTED: &str = concat!("one of" $(, " ", $name)*);

        /// What the agent of a name is, in a few words; none if there is no such agent.
        #[must_use]
        pub fn about(name: &str) -> Option<&'static str> {
            match name {
                $($name => Some($about),)*
                _ => None,
            }
        }

        /// The agent of a name with these settings, a JSON object; what is not in it is the default.
        ///
        /// # Errors
        /// [`Setting`](RlError::Setting): there is no such agent, or no such setting; a setting of another type.
        ///
        /// ```
        /// let agent = relive_agents::from_json("ppo", r#"{"epochs": 4}"#)?;
        /// assert_eq!(agent.name(), "ppo");
        /// assert!(relive_agents::from_json("ppo", r#"{"epoch": 4}"#).is_err());
        /// # Ok::<(), relive_rl::RlError>(())
        /// ```
        pub fn from_json(name: &str, settings: &str) -> Result<Arc<dyn Agent>> {
            match name {
                $($name => made::<$config>(settings),)*
                _ => Err(unknown(name)),
            }
        }

        /// The settings of an agent as a JSON object: what is known to learn fast in the environment of a name, otherwise the defaults.
        ///
        /// # Errors
        /// [`Setting`](RlError::Setting): there is no such agent.
        pub fn preset(name: &str, environment: &str) -> Result<String> {
            match name {
                $($name => Ok(text(&<$config>::for_environment(environment))),)*
                _ => Err(unknown(name)),
            }
        }
    };
}

agents! {
    "a2c", crate::A2cConfig, "Advantage actor-critic, for discrete actions and arrays of numbers";
    "a3c", crate::A3cConfig, "Asynchronous advantage actor-critic, for discrete actions and arrays of numbers";
    "apex", crate::ApexConfig, "Ape-X DQN: many actors that differ in how much they explore";
    "appo", crate::AppoConfig, "Asynchronous proximal policy optimisation: PPO whose workers run ahead";
    "d4pg", crate::D4pgConfig, "DDPG with a distribution of returns, for arrays of numbers";
    "ddpg", crate::DdpgConfig, "Deep deterministic policy gradient, for arrays of numbers";
    "dmpo", crate::DmpoConfig, "MPO with a distribution of returns, for arrays of numbers";
    "dqfd", crate::DqfdConfig, "DQN from demonstrations beside what it sees itself";
    "dqn", crate::DqnConfig, "Deep Q-network: double Q-learning, transitions over several steps, prioritised replay";
    "impala", crate::ImpalaConfig, "Actor-critic whose workers run ahead, corrected by V-trace; with a memory";
    "mcts", crate::MctsConfig, "Search in the environment or a learned model, guided by what it has taught a network";
    "mpo", crate::MpoConfig, "Maximum a posteriori policy optimisation, for arrays of numbers";
    "ppo", crate::PpoConfig, "Proximal policy optimisation, for discrete actions and arrays of numbers";
    "r2d2", crate::R2d2Config, "Q-learning with a memory, for discrete actions";
    "r2d3", crate::R2d3Config, "R2D2 from demonstrations beside what it sees itself";
    "sac", crate::SacConfig, "Soft actor-critic, for arrays of numbers";
    "td3", crate::Td3Config, "Twin delayed DDPG, for arrays of numbers";
}

/// The default settings with those that are given in their place.
fn made<A: Agent + Default + Serialize + DeserializeOwned + 'static>(
    settings: &str,
) -> Result<Arc<dyn Agent>> {
    let refused = |error: serde_json::Error| RlError::Setting {
        name: "the agent's settings",
        got: error.to_string(),
        expected: "a JSON object of its settings",
    };
    let given: Map<String, Value> = serde_json::from_str(settings).map_err(refused)?;
    let mut all: Map<String, Value> = serde_json::from_str(&text(&A::default())).map_err(refused)?;
    all.extend(given);
    // By way of text, in which numbers keep their digits.
    let agent: A = serde_json::from_str(&Value::Object(all).to_string()).map_err(refused)?;
    Ok(Arc::new(agent))
}

fn text(settings: &impl Serialize) -> String {
    // Settings are numbers, texts and lists of them, which JSON has.
    serde_json::to_string(settings).unwrap_or_default()
}

fn unknown(name: &str) -> RlError {
    RlError::Setting { name: "the agent", got: name.to_owned(), expected: EXPECTED }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_agent_is_made_by_its_name_and_told() {
        for name in NAMES {
            let agent = from_json(name, &preset(name, "").unwrap()).unwrap();
            assert_eq!(agent.name(), *name);
            agent.validate().unwrap();
            assert!(about(name).is_some_and(|about| !about.is_empty()));
        }
        let error = from_json("sarsa", "{}").map(drop).unwrap_err().to_string();
        assert!(error.contains("sarsa") && NAMES.iter().all(|name| error.contains(name)), "{error}");
        assert!(preset("sarsa", "").is_err() && about("sarsa").is_none());
    }
}
