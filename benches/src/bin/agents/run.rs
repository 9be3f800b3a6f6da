//! Executes a run of a row.

use crate::rows::{Measure, Row};
use relive_rl::plan::MakeEnvironment;
use relive_rl::run::{Evaluation, Report, RunOptions, train};

/// The number of episodes of an evaluation.
const EPISODES: u64 = 10;

/// The results of a run.
pub(crate) struct Figures {
    pub(crate) result: f64,
    pub(crate) env_steps_per_s: f64,
}

pub(crate) fn trained(row: &Row, seed: u64) -> Result<Figures, Box<dyn std::error::Error>> {
    let agent = relive_agents::from_json(row.agent, &relive_agents::preset(row.agent, row.environment)?)?;
    let name = row.environment;
    let make = MakeEnvironment::new(move |seed| Ok(relive_env::make(name, seed)?));
    let evaluation = match row.measure {
        Measure::Training => None,
        Measure::Shown => Some(Evaluation { every: row.env_steps, episodes: EPISODES }),
    };
    let options = RunOptions {
        environment: row.environment.to_owned(),
        env_steps: row.env_steps,
        seed,
        actors: row.actors,
        evaluation,
        ..RunOptions::default()
    };
    let mut shown = Vec::new();
    let trained = train(&agent, &options, &make, &mut |report| {
        if let Report::Evaluator(episode) = report {
            shown.push(episode.episode_return);
        }
    })?;
    #[expect(clippy::cast_precision_loss, reason = "a mean of ten")]
    let result = match row.measure {
        Measure::Training => trained.summary.mean_return_last_100,
        Measure::Shown => shown.iter().rev().take(10).sum::<f64>() / EPISODES as f64,
    };
    Ok(Figures { result, env_steps_per_s: trained.summary.env_steps_per_s })
}
