//! Agents by their names, with their settings.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use relive_rl::dqn::DqnConfig;

use crate::failure::{Failure, Kind, Result};

/// An agent's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum AgentName {
    /// Deep Q-network: double Q-learning, transitions over several steps, prioritised replay
    Dqn,
}

/// Which agent, with which settings.
#[derive(Debug, Clone, Args)]
pub(super) struct AgentOptions {
    /// The agent
    #[arg(value_enum)]
    agent: AgentName,
    /// Settings of the agent (TOML), as in `batch_size = 64`; what is not there is the preset's
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Settings that --config goes on from
    #[arg(long, value_enum, default_value_t = Preset::Auto)]
    preset: Preset,
}

/// Settings to begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Preset {
    /// What is known to be good for the environment, else Acme's defaults
    Auto,
    /// Acme's defaults
    Acme,
}

impl AgentOptions {
    pub(super) fn name(&self) -> &'static str {
        match self.agent {
            AgentName::Dqn => "dqn",
        }
    }

    /// The settings for an environment.
    pub(super) fn settings(&self, environment: &str) -> Result<DqnConfig> {
        let preset = match self.preset {
            Preset::Auto => DqnConfig::for_environment(environment),
            Preset::Acme => DqnConfig::default(),
        };
        self.config.as_deref().map_or(Ok(preset.clone()), |path| changed(&preset, path))
    }
}

fn changed(preset: &DqnConfig, path: &Path) -> Result<DqnConfig> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("--config {}: {error}", path.display())))?;
    let told = |error: toml::de::Error| Failure::usage(format!("{}: {}", path.display(), error.message()));
    // As it is, for an error that names a line of the file's.
    toml::from_str::<DqnConfig>(&text).map_err(told)?;
    let changes: toml::Table = toml::from_str(&text).map_err(told)?;
    let mut table = toml::Table::try_from(preset).map_err(|error| Failure::text(Kind::Runtime, error))?;
    table.extend(changes);
    table.try_into().map_err(told)
}
