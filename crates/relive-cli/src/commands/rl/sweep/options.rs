//! The options.

use std::path::PathBuf;

use clap::Args;

use super::suite::Suite;
use crate::commands::rl::agent::{SettingOptions, agents};
use crate::commands::rl::runs::LogFormat;
use crate::commands::rl::train::{Data, Evaluate, Length};
use crate::failure::{Failure, Result};

/// Options of `relive rl sweep`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The agents, as in dqn,r2d2
    #[arg(value_parser = agents(), value_name = "AGENTS", required = true, value_delimiter = ',')]
    pub(super) agents: Vec<&'static str>,
    #[command(flatten)]
    pub(super) settings: SettingOptions,
    /// Environments, as in `relive rl train`; an experiment of bsuite, such as catch, stands for all of its
    /// environments, and `bsuite` for those of all experiments
    #[arg(long = "env", value_name = "NAMES", required_unless_present = "suite", value_delimiter = ',')]
    pub(super) environments: Vec<String>,
    /// A suite of tasks instead, each with as many episodes or steps as it needs
    #[arg(long, value_enum, conflicts_with = "environments")]
    pub(super) suite: Option<Suite>,
    /// Share of the suite's episodes and steps to run, as in 0.1 for a first look
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = share, conflicts_with = "environments")]
    pub(super) scale: f64,
    /// Number of seeds, counted from 1 [default: 3; in a suite 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(super) seeds: Option<u64>,
    /// Runs at a time [default: the number of processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) jobs: Option<u16>,
    /// Folder for the report, and for a folder for each run; finished runs there are not repeated
    #[arg(long, value_name = "DIR")]
    pub(super) out: PathBuf,
    #[command(flatten)]
    pub(super) length: Length,
    #[command(flatten)]
    pub(super) data: Data,
    #[command(flatten)]
    pub(super) evaluate: Evaluate,
    /// Formats of the runs' logs; the report requires jsonl
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["jsonl"])]
    pub(super) logs: Vec<LogFormat>,
}

impl Options {
    /// Checks the combination of options that set what the agents learn from.
    pub(super) fn expect_together(&self) -> Result {
        self.agents.iter().try_for_each(|agent| self.data.expect(agent))?;
        if self.data.path.is_none() {
            return Ok(());
        }
        if self.suite.is_some() {
            return Err(Failure::usage(
                "--data cannot be combined with --suite: the data is for one environment; give --env",
            ));
        }
        if self.evaluate.options().is_none() {
            let text = "--data requires --evaluate-every: runs that do not act have no episodes of their own to report";
            return Err(Failure::usage(text));
        }
        Ok(())
    }
}

/// Returns a share of a task.
fn share(text: &str) -> std::result::Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| *number > 0.0 && *number <= 100.0);
    number.ok_or_else(|| "must be above 0 and at most 100".to_owned())
}
