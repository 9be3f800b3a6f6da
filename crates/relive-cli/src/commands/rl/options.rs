//! The subcommands of `relive rl`.

use clap::{Args, Subcommand};

use super::{agents, launch, learner, node, plan, plot, record, sweep, train, worker};
use crate::failure::Result;

/// Options of `relive rl`.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

/// What to do with an agent.
#[derive(Debug, Subcommand)]
enum What {
    /// Train an agent in an environment
    Train(Box<train::Options>),
    /// List the agents, or the settings of one
    Agents(agents::Options),
    /// Record episodes, to learn from them without acting or as demonstrations
    Record(record::Options),
    /// Train an agent in several environments with several seeds, some runs at a time
    Sweep(sweep::Options),
    /// Act for a run that learns elsewhere
    Worker(worker::Options),
    /// Learn along with a run that has several learners
    Learner(learner::Options),
    /// Act for a run that learns elsewhere with several workers, which may join while it is at work
    Node(node::Options),
    /// Write what starts a run and its workers on several machines: commands, a script for Slurm, or manifests for
    /// Kubernetes
    Launch(launch::Options),
    /// Say how fast a run would be on more machines, and what would hold it up
    Plan(plan::Options),
    /// Draw the learning curves of runs, or bsuite's radar
    Plot(plot::Options),
}

pub(crate) fn run(options: &Options) -> Result {
    match &options.what {
        What::Train(options) => train::run(options),
        What::Agents(options) => agents::run(options),
        What::Record(options) => record::run(options),
        What::Sweep(options) => sweep::run(options),
        What::Worker(options) => worker::run(options),
        What::Learner(options) => learner::run(options),
        What::Node(options) => node::run(options),
        What::Launch(options) => launch::run(options),
        What::Plan(options) => plan::run(options),
        What::Plot(options) => plot::run(options),
    }
}
