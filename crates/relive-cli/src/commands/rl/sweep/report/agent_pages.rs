//! A Markdown page for each agent: its description, its results, its curves, and its settings.

use std::path::Path;

use relive_agents::about;
use relive_env::Environment;
use relive_rl::RlError;
use relive_rl::recorded::{self, RecordedEpisode};

use super::page::ranged;
use super::pictures::curves_name;
use super::table::{Cell, Table};
use crate::commands::rl::sweep::plans::Recipe;
use crate::commands::rl::sweep::scores::{Scored, range};
use crate::failure::{Failure, Result};

/// Returns the pages, each with the name of its file.
///
/// # Errors
/// The recorded episodes can no longer be read.
pub(super) fn pages(all: &[Scored<'_>]) -> Result<Vec<(String, String)>> {
    let table = Table::of(all);
    let agents = table.agents.iter().enumerate();
    agents.map(|(column, agent)| Ok((format!("{agent}.md"), page(all, &table, (column, agent))?))).collect()
}

fn page(all: &[Scored<'_>], table: &Table, (column, agent): (usize, &str)) -> Result<String> {
    let runs: Vec<&Scored<'_>> = all.iter().filter(|scored| scored.plan.about.agent == agent).collect();
    let mut text = format!("# `{agent}`\n\n");
    if let Some(about) = about(agent) {
        let actions = match about.actions {
            "discrete" => "discrete",
            "continuous" => "continuous, one bounded array",
            _ => "discrete, or continuous as one array",
        };
        text +=
            &format!("{} ({}). Actions: {actions}. Replay: {}.\n\n", about.text, about.paper, about.replay);
    }
    let from_data = runs.iter().any(|run| run.figures.is_from_data());
    let steps = if from_data { "Learner steps" } else { "Steps" };
    text += &format!(
        "| Environment | {steps} | Seeds | Return, last 100 episodes | Without exploring | Score |\n|---|---|---|---|---|---|\n"
    );
    for row in &table.rows {
        let here: Vec<&Scored<'_>> =
            runs.iter().copied().filter(|run| run.plan.about.environment == row.environment).collect();
        if let Some(cell) = row.cells.get(column).filter(|_| !here.is_empty()) {
            text += &line(&row.environment, &here, *cell);
        }
    }
    text += "\nEach cell shows the mean over the seeds, followed by the lowest and the highest value. Environments \
             of bsuite are scored from 0 to 1 by bsuite's rules. In other environments, a random policy scores 0 \
             and an expert scores 1; scores can be lower or higher.\n";
    for environment in table.rows.iter().map(|row| &row.environment) {
        if let Some(run) = runs.iter().find(|run| run.plan.about.environment == *environment) {
            text += &section(agent, environment, run)?;
        }
    }
    Ok(text)
}

fn line(environment: &str, runs: &[&Scored<'_>], cell: Cell) -> String {
    let shown: Vec<f64> = runs.iter().filter_map(|run| run.figures.summary.evaluator_return).collect();
    let steps = |run: &&Scored<'_>| match run.figures.is_from_data() {
        true => run.figures.summary.learner_steps,
        false => run.figures.summary.env_steps,
    };
    let steps = runs.iter().map(steps).max().unwrap_or(0);
    // An agent that does not act has only episodes without exploration.
    let acted = runs.iter().any(|run| !run.figures.is_from_data());
    format!(
        "| {environment} | {steps} | {} | {} | {} | {} |\n",
        runs.len(),
        ranged(cell.episode_return.filter(|_| acted)),
        ranged(range(&shown)),
        ranged(cell.score)
    )
}

/// Returns the curves in an environment, the command, and the settings that differ from the agent's defaults.
fn section(agent: &str, environment: &str, run: &Scored<'_>) -> Result<String> {
    let defaults = relive_agents::from_json(agent, "{}").map(|agent| agent.settings()).unwrap_or_default();
    let others = run.plan.recipe.settings.iter().filter(|setting| !defaults.contains(setting));
    let others: Vec<String> = others.map(|(name, value)| format!("`{name} = {value}`")).collect();
    let settings = match others.is_empty() {
        true => "The settings are the defaults.".to_owned(),
        false => format!("Settings that differ from the defaults: {}.", others.join(", ")),
    };
    let data = run.plan.recipe.data.as_deref();
    let learned = data.map_or_else(|| Ok(String::new()), |data| learned_from(data, environment))?;
    Ok(format!(
        "\n## {environment}\n\n{learned}![Learning curves in {environment}]({})\n\n    relive rl train {agent} --env {environment}{}\n\n{settings}\n",
        curves_name(environment, data.is_some()),
        length(&run.plan.recipe)
    ))
}

/// Returns a description of the recorded episodes, for comparison with the returns.
fn learned_from(data: &Path, environment: &str) -> Result<String> {
    let made = relive_env::make(environment, 1).map_err(RlError::from)?;
    let episodes = recorded::load(data, made.spec()).map_err(|error| Failure::from(error).of("--data"))?;
    let returns: Vec<f64> = episodes.iter().map(RecordedEpisode::episode_return).collect();
    let (count, steps) =
        (episodes.len(), episodes.iter().map(|episode| episode.answers.len()).sum::<usize>());
    Ok(format!(
        "The agent learned from {count} recorded episodes with {steps} steps in total. Their mean return is {}.\n\n",
        ranged(range(&returns))
    ))
}

/// Returns the options of `relive rl train` for runs of the same length, with the same evaluations.
fn length(recipe: &Recipe) -> String {
    let Recipe { steps, data, learner_steps, episodes, until, evaluation, settings: _ } = recipe;
    let mut text = match data {
        Some(data) => format!(" --data {}", data.display()),
        None => format!(" --steps {steps}"),
    };
    let numbers = [("learner-steps", *learner_steps), ("episodes", *episodes)];
    for (name, number) in numbers {
        text += &number.map_or_else(String::new, |number| format!(" --{name} {number}"));
    }
    text += &until.map_or_else(String::new, |until| format!(" --until {until}"));
    if let Some((every, episodes)) = evaluation {
        text += &format!(" --evaluate-every {every} --evaluate-episodes {episodes}");
    }
    text
}
