//! Agents by name, with their settings.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use relive_agents::{NAMES, about};
use relive_rl::run::Trained;
use relive_rl::{Agent, SavedPolicy};

use crate::failure::{Failure, Kind, Result};

/// Returns the agents that a command line may name, each with a description.
pub(super) fn agents() -> impl TypedValueParser<Value = &'static str> {
    let values = NAMES.iter().map(|name| {
        let value = PossibleValue::new(*name);
        about(name).map_or(value.clone(), |about| value.help(about.text))
    });
    PossibleValuesParser::new(values).map(|given| *NAMES.iter().find(|name| **name == given).unwrap_or(&""))
}

/// The agent and its settings.
#[derive(Debug, Clone, Args)]
pub(super) struct AgentOptions {
    /// The agent
    #[arg(value_parser = agents())]
    agent: &'static str,
    #[command(flatten)]
    settings: SettingOptions,
}

/// The settings of agents.
#[derive(Debug, Clone, Args)]
pub(super) struct SettingOptions {
    /// Settings of the agent (TOML), as in `batch_size = 64`; the preset supplies the others
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A setting of the agent, as in --set learning_rate=0.001; repeatable, and takes precedence over --config
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_and_value)]
    set: Vec<(String, String)>,
    /// Settings that --config and --set start from
    #[arg(long, value_enum, default_value_t = Preset::Auto)]
    preset: Preset,
}

/// Settings to begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Preset {
    /// Settings known to work well for the environment, if there are any, else the agent's defaults
    Auto,
    /// The agent's defaults (docs/agents.md), for instance Acme's for DQN and Stable-Baselines3's for PPO
    #[value(alias = "acme")]
    Default,
}

impl AgentOptions {
    pub(super) fn name(&self) -> &'static str {
        self.agent
    }

    /// Returns the agent with its settings for an environment.
    pub(super) fn make_agent(&self, environment: &str) -> Result<Arc<dyn Agent>> {
        self.settings.make_agent(self.agent, environment)
    }
}

impl SettingOptions {
    /// Returns an agent by its name, with its settings for an environment.
    pub(super) fn make_agent(&self, agent: &str, environment: &str) -> Result<Arc<dyn Agent>> {
        let of = if self.preset == Preset::Auto { environment } else { "" };
        let preset: serde_json::Value = serde_json::from_str(&relive_agents::preset(agent, of)?)
            .map_err(|error| Failure::text(Kind::Runtime, error))?;
        let of_json = |settings: &serde_json::Value| relive_agents::from_json(agent, &settings.to_string());
        let mut settings = toml::Table::try_from(strip_nulls(preset))
            .map_err(|error| Failure::text(Kind::Runtime, error))?;
        for (whose, changes) in self.changes()? {
            let usage_error = |error: relive_rl::RlError| Failure::usage(format!("{whose}: {error}"));
            // Checks each change separately, so that the error names the faulty one.
            of_json(&json(&changes)?).map_err(usage_error)?;
            merge(&mut settings, changes);
        }
        Ok(of_json(&json(&settings)?)?)
    }

    /// Returns the changed settings, each with the option that sets it.
    fn changes(&self) -> Result<Vec<(String, toml::Table)>> {
        let mut changes = Vec::new();
        if let Some(path) = &self.config {
            changes.push((path.display().to_string(), read(path)?));
        }
        for (key, value) in &self.set {
            let whose = format!("--set {key}={value}");
            let changed = setting(key, value);
            // Agents are created from JSON, which has neither NaN nor infinity: such a value would be treated as if it
            // were not set.
            if changed.values().any(|value| value.as_float().is_some_and(|value| !value.is_finite())) {
                return Err(Failure::usage(format!("{whose}: the value must be a finite number")));
            }
            changes.push((whose, changed));
        }
        Ok(changes)
    }
}

/// Writes the trained policy to the requested file.
pub(super) fn save_policy(agent: &dyn Agent, trained: &Trained, path: &Path) -> Result {
    let saved = SavedPolicy::of(agent, trained).and_then(|policy| policy.save(path));
    saved.map_err(|error| Failure::from(error).of("--policy"))
}

fn read(path: &Path) -> Result<toml::Table> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("--config {}: {error}", path.display())))?;
    toml::from_str(&text).map_err(|error| Failure::usage(format!("{}: {}", path.display(), error.message())))
}

/// Parses a setting as a TOML value. A value that is not TOML, as in loss=categorical, is taken as a string.
fn setting(key: &str, value: &str) -> toml::Table {
    let parsed = toml::from_str::<toml::Table>(&format!("value = {value}")).ok();
    // A value with a line break could define further keys.
    let parsed = parsed.filter(|table| table.len() == 1).and_then(|mut table| table.remove("value"));
    let parsed = parsed.filter(|value| !value.is_datetime());
    let value = parsed.unwrap_or_else(|| toml::Value::String(value.to_owned()));
    // A setting of a group is written with a dot, as in demonstrations.ratio.
    match key.split_once('.') {
        Some((group, name)) => toml::Table::from_iter([(group.to_owned(), setting_of(name, value))]),
        None => toml::Table::from_iter([(key.to_owned(), value)]),
    }
}

fn setting_of(name: &str, value: toml::Value) -> toml::Value {
    toml::Value::Table(toml::Table::from_iter([(name.to_owned(), value)]))
}

/// Replaces settings. In groups, replaces only the given settings.
fn merge(all: &mut toml::Table, given: toml::Table) {
    for (name, value) in given {
        match (all.get_mut(&name), value) {
            (Some(toml::Value::Table(group)), toml::Value::Table(given)) => merge(group, given),
            (_, value) => drop(all.insert(name, value)),
        }
    }
}

fn key_and_value(text: &str) -> std::result::Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err("must be KEY=VALUE, as in learning_rate=0.001".to_owned()),
    }
}

fn json(settings: &toml::Table) -> Result<serde_json::Value> {
    serde_json::to_value(settings).map_err(|error| Failure::text(Kind::Runtime, error))
}

/// TOML has no null: unset values are omitted.
fn strip_nulls(mut settings: serde_json::Value) -> serde_json::Value {
    if let Some(fields) = settings.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
        fields.values_mut().for_each(|value| *value = strip_nulls(value.take()));
    }
    settings
}
