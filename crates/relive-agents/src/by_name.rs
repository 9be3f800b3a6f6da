//! Agents by their names.

use std::sync::Arc;

use relive_rl::{Agent, Result, RlError};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{A2cConfig, A3cConfig, DqnConfig, PpoConfig, SacConfig};

/// The names of all agents.
pub const NAMES: [&str; 5] = ["a2c", "a3c", "dqn", "ppo", "sac"];

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
        "a2c" => made::<A2cConfig>(settings),
        "a3c" => made::<A3cConfig>(settings),
        "dqn" => made::<DqnConfig>(settings),
        "ppo" => made::<PpoConfig>(settings),
        "sac" => made::<SacConfig>(settings),
        _ => Err(unknown(name)),
    }
}

/// The settings of an agent as a JSON object: what is known to learn fast in the environment of a name, otherwise the defaults.
///
/// # Errors
/// [`Setting`](RlError::Setting): there is no such agent.
pub fn preset(name: &str, environment: &str) -> Result<String> {
    match name {
        "a2c" => Ok(text(&A2cConfig::default())),
        "a3c" => Ok(text(&A3cConfig::default())),
        "dqn" => Ok(text(&DqnConfig::for_environment(environment))),
        "ppo" => Ok(text(&PpoConfig::for_environment(environment))),
        "sac" => Ok(text(&SacConfig::for_environment(environment))),
        _ => Err(unknown(name)),
    }
}

fn made<A: Agent + DeserializeOwned + 'static>(settings: &str) -> Result<Arc<dyn Agent>> {
    let agent: A = serde_json::from_str(settings).map_err(|error| RlError::Setting {
        name: "the agent's settings",
        got: error.to_string(),
        expected: "a JSON object of its settings",
    })?;
    Ok(Arc::new(agent))
}

fn text(settings: &impl Serialize) -> String {
    // Settings are numbers, texts and lists of them, which JSON has.
    serde_json::to_string(settings).unwrap_or_default()
}

fn unknown(name: &str) -> RlError {
    RlError::Setting { name: "the agent", got: name.to_owned(), expected: "a2c, a3c, dqn, ppo or sac" }
}
