//! The figures of runs as a table.

use super::pictures::distinct;
use crate::commands::rl::sweep::scores::{Scored, range};

/// The table of a page: a row for each environment, and for each agent its scores and returns.
pub(super) struct Table {
    pub(super) agents: Vec<String>,
    pub(super) rows: Vec<Row>,
    /// The mean score of each agent over all environments with a score.
    pub(super) means: Vec<Option<f64>>,
}

/// An environment.
pub(super) struct Row {
    pub(super) environment: String,
    /// One cell for each agent.
    pub(super) cells: Vec<Cell>,
}

/// An agent in an environment: the minimum, mean and maximum over all seeds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cell {
    pub(super) score: Option<[f64; 3]>,
    pub(super) episode_return: Option<[f64; 3]>,
}

impl Table {
    pub(super) fn of(all: &[Scored<'_>]) -> Table {
        let agents = distinct(all, |about| &about.agent);
        let rows: Vec<Row> = distinct(all, |about| &about.environment)
            .into_iter()
            .map(|environment| {
                let cells = agents.iter().map(|agent| cell(all, agent, &environment)).collect();
                Row { environment, cells }
            })
            .collect();
        let of_agent = |index: usize| {
            let scores = rows.iter().filter_map(|row| row.cells.get(index)?.score);
            range(&scores.map(|[_, mean, _]| mean).collect::<Vec<_>>()).map(|[_, mean, _]| mean)
        };
        let means = (0..agents.len()).map(of_agent).collect();
        Table { agents, rows, means }
    }
}

fn cell(all: &[Scored<'_>], agent: &str, environment: &str) -> Cell {
    let runs = || {
        let about = |scored: &&Scored<'_>| {
            scored.plan.about.agent == agent && scored.plan.about.environment == environment
        };
        all.iter().filter(about)
    };
    let scores: Vec<f64> = runs().filter_map(|scored| scored.score).collect();
    let returns: Vec<f64> = runs().filter_map(|scored| scored.figures.episode_return()).collect();
    Cell { score: range(&scores), episode_return: range(&returns) }
}

/// Returns a line for each run.
pub(super) fn csv(all: &[Scored<'_>]) -> String {
    let mut text = "agent,environment,seed,score,mean_return_last_100,evaluator_return,episodes,env_steps,learner_steps,\
                    env_steps_per_s\n"
        .to_owned();
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    for Scored { plan, figures, score } in all {
        let (about, summary) = (&plan.about, &figures.summary);
        text += &format!(
            "{},{},{},{},{},{},{},{},{},{}\n",
            about.agent,
            about.environment,
            about.seed,
            number(*score),
            number((summary.episodes > 0).then_some(summary.mean_return_last_100)),
            number(summary.evaluator_return),
            summary.episodes,
            summary.env_steps,
            summary.learner_steps,
            summary.env_steps_per_s
        );
    }
    text
}
