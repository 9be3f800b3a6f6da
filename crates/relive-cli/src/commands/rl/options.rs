//! The subcommands of `relive rl`.

use clap::{Args, Subcommand};

use super::{agents, launch, learner, node, plan, plot, record, sweep, train, worker};
use crate::failure::Result;

/// Options of `relive rl`.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: RlCommand,
}

/// What to do with an agent.
#[derive(Debug, Subcommand)]
enum RlCommand {
    /// Train an agent in an environment
    Train(Box<train::Options>),
    /// List the agents, or the settings of one agent
    Agents(agents::Options),
    /// Record episodes as training data or as demonstrations
    Record(record::Options),
    /// Train agents on several tasks with several seeds, in parallel, and write a report
    Sweep(sweep::Options),
    /// Act for a run whose learner is in another process
    Worker(worker::Options),
    /// Add a learner to a run of several learners
    Learner(learner::Options),
    /// Act with several workers for a run whose learner is in another process; can join a run in progress
    Node(node::Options),
    /// Write the commands, the Slurm script or the Kubernetes manifests that start a run and its workers on several
    /// machines
    Launch(launch::Options),
    /// Predict how fast a run would be on more machines, and its first bottleneck
    Plan(plan::Options),
    /// Draw the learning curves of runs, or bsuite's radar
    Plot(plot::Options),
}

pub(crate) fn run(options: &Options) -> Result {
    match &options.what {
        RlCommand::Train(options) => train::run(options),
        RlCommand::Agents(options) => agents::run(options),
        RlCommand::Record(options) => record::run(options),
        RlCommand::Sweep(options) => sweep::run(options),
        RlCommand::Worker(options) => worker::run(options),
        RlCommand::Learner(options) => learner::run(options),
        RlCommand::Node(options) => node::run(options),
        RlCommand::Launch(options) => launch::run(options),
        RlCommand::Plan(options) => plan::run(options),
        RlCommand::Plot(options) => plot::run(options),
    }
}
