//! `relive rl agents`: lists the agents.

use clap::Args;
use relive_agents::{About, NAMES, about};
use serde::Serialize;

use crate::failure::{Failure, Kind, Result};
use crate::output;

/// Options of `relive rl agents`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Show the settings of this agent
    agent: Option<String>,
    /// Show the settings known to work well for this environment instead of the defaults; requires an agent
    #[arg(long, value_name = "NAME", requires = "agent")]
    env: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Listed {
    name: &'static str,
    paper: &'static str,
    actions: &'static str,
    replay: &'static str,
    about: &'static str,
}

pub(crate) fn run(options: &Options) -> Result {
    if let Some(agent) = &options.agent {
        return settings(agent, options.env.as_deref().unwrap_or_default(), options.json);
    }
    let listed: Vec<About> = NAMES.iter().filter_map(|name| about(name)).collect();
    if options.json {
        let listed = listed.into_iter().map(|About { name, paper, actions, replay, text }| Listed {
            name,
            paper,
            actions,
            replay,
            about: text,
        });
        let text = serde_json::to_string(&listed.collect::<Vec<_>>());
        return Ok(output::line(&text.map_err(|error| Failure::text(Kind::Runtime, error))?)?);
    }
    let width = |of: fn(&About) -> &str| listed.iter().map(|about| of(about).len()).max().unwrap_or(0);
    let (actions, replay) = (width(|about| about.actions), width(|about| about.replay));
    for About { name, paper, actions: takes, replay: keeps, text } in &listed {
        output::line(&format!("{name:<7} {takes:<actions$}  {keeps:<replay$}  {text} ({paper})"))?;
    }
    Ok(())
}

/// Prints one setting per line, as `--config` accepts them.
fn settings(agent: &str, environment: &str, is_json: bool) -> Result {
    let preset = relive_agents::preset(agent, environment)?;
    if is_json {
        return Ok(output::line(&preset)?);
    }
    let runtime_error = |error: serde_json::Error| Failure::text(Kind::Runtime, error);
    let fields: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(&preset).map_err(runtime_error)?;
    for (name, value) in fields {
        match value {
            serde_json::Value::Null => output::line(&format!("# {name} is not set"))?,
            serde_json::Value::Object(group) => {
                for (inner, value) in group.iter().filter(|(_, value)| !value.is_null()) {
                    output::line(&format!("{name}.{inner} = {value}"))?;
                }
            }
            value => output::line(&format!("{name} = {value}"))?,
        }
    }
    Ok(())
}
