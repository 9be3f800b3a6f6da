//! `relive rl learner`: one of several learners of a run.

use clap::Args;
use relive_rl::learners::{Follower, learn};
use relive_rl::plan::MakeEnvironment;
use relive_rl::run::Stop;

use super::processes::ServerAccess;
use super::worker::end_with_input;
use crate::failure::Result;
use crate::output;

/// Options of `relive rl learner`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Address of the run's tables, host:port; the run determines agent, settings and environment
    #[arg(long, value_name = "ADDR")]
    join: String,
    /// Number of this learner among the learners of the run, from 1; 0 is the run itself
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    rank: u32,
    /// Exit when standard input closes, which happens when the parent process exits
    #[arg(long, hide = true)]
    supervised: bool,
    #[command(flatten)]
    access: ServerAccess,
}

/// Learns until the run ends.
pub(crate) fn run(options: &Options) -> Result {
    if options.supervised {
        end_with_input();
    }
    let client = options.access.client(&options.join, "--join")?;
    let make = |name: &str| {
        let name = name.to_owned();
        Ok(MakeEnvironment::new(move |seed| Ok(relive_env::make(&name, seed)?)))
    };
    let (rank, stop) = (options.rank, Stop::new());
    let learnt = learn(&Follower { client: &client, rank, stop: &stop }, &relive_agents::from_json, &make)?;
    output::line(&format!("learner {rank}: {} steps", learnt.steps))?;
    Ok(())
}
