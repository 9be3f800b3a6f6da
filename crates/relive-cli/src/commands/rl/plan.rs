//! `relive rl plan`: predicts the speed of a run on a cluster, and its bottleneck.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use relive_agents::about;
use relive_rl::Agent;
use relive_rl::cost::{Cluster, Costs, Prediction, Probe};
use relive_rl::plan::MakeEnvironment;
use relive_rl::run::Stop;
use serde_json::json;

use super::agent::AgentOptions;
use super::places;
use super::run_server::RunServer;
use crate::failure::{Failure, Kind, Result};
use crate::output;
use crate::signals;
use crate::units::{bytes, count, parse_bytes, parse_seconds};

/// The bandwidth of a 10 Gbit/s network, in bytes per second.
const NETWORK: &str = "1250000000";

/// Options of `relive rl plan`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    agent: AgentOptions,
    /// The environment: an identifier of bsuite, such as catch/0, or a classic control task, such as CartPole-v1
    #[arg(long, value_name = "NAME")]
    env: String,
    /// Machines, including the learner's
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    nodes: u32,
    /// Workers on all machines together [default: one for each processor, or for each environment if each worker has
    /// one]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    actors: Option<u32>,
    /// Environments of all workers together [default: the agent's for this number of workers]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    envs: Option<u32>,
    /// Processors of each machine [default: those of the machine where the costs were measured]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4_096))]
    cpus: Option<u32>,
    /// Bandwidth to and from the learner's machine, in bytes per second
    #[arg(long, value_name = "BYTES", default_value = NETWORK, value_parser = parse_bytes)]
    network: u64,
    /// How long to measure the costs once the learner has started
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = parse_seconds)]
    seconds: Duration,
    /// File of the costs (JSON). If it exists, for instance from another machine, the costs are read from it; otherwise
    /// they are measured and written to it
    #[arg(long, value_name = "FILE")]
    costs: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Measures or reads the costs, and prints the prediction.
pub(crate) fn run(options: &Options) -> Result {
    let name = options.agent.name();
    if about(name).is_some_and(|about| !about.acts()) {
        return Err(Failure::usage(format!(
            "{name} learns only from recorded episodes: it does not act, so there is nothing to plan"
        )));
    }
    let agent = options.agent.make_agent(&options.env)?;
    agent.validate()?;
    relive_env::make(&options.env, 0).map_err(relive_rl::RlError::from)?;
    let costs = options.costs(&agent)?;
    let cluster = options.cluster(agent.as_ref(), &costs);
    let predicted = costs.predict(&cluster)?;
    if options.json {
        let document =
            json!({"cluster": cluster, "prediction": predicted, "bottleneck": predicted.bottleneck()});
        return Ok(output::line(&document.to_string())?);
    }
    Ok(output::line(&describe(&costs, &cluster, &predicted))?)
}

impl Options {
    fn costs(&self, agent: &Arc<dyn Agent>) -> Result<Costs> {
        let of_option = |error: relive_rl::RlError| Failure::from(error).of("--costs");
        let Some(path) = &self.costs else { return self.measured(agent) };
        if path.exists() {
            let costs = Costs::load(path).map_err(|error| Failure::usage(error).of("--costs"))?;
            let place = path.display().to_string();
            return costs.expect(agent.as_ref(), &self.env, &place).map(|()| costs).map_err(of_option);
        }
        places::expect_file("--costs", path, &[])?;
        let costs = self.measured(agent)?;
        costs.save(path).map_err(of_option)?;
        Ok(costs)
    }

    /// Runs the agent for a few seconds.
    fn measured(&self, agent: &Arc<dyn Agent>) -> Result<Costs> {
        let run_server = RunServer::start(None, None, None)?;
        let (name, stop) = (self.env.clone(), Stop::new());
        let stop_handle = stop.clone();
        signals::stop_in_order("measurement", move || stop_handle.stop())
            .map_err(|error| Failure::text(Kind::Runtime, error))?;
        let probe = Probe {
            agent,
            environment: &self.env,
            make: &MakeEnvironment::new(move |seed| Ok(relive_env::make(&name, seed)?)),
            watch: run_server.watch(),
            address: run_server.address().to_string(),
            seconds: self.seconds,
            stop,
        };
        Ok(probe.measure()?)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "numbers of processors and bytes are far below 2^52"
    )]
    fn cluster(&self, agent: &dyn Agent, costs: &Costs) -> Cluster {
        let [nodes, actors, envs] =
            [Some(self.nodes), self.actors, self.envs].map(|count| count.map(|count| count as usize));
        let nodes = nodes.unwrap_or(1);
        let processors = self.cpus.map_or(costs.processors, f64::from);
        let one_each = |envs: &usize| agent.environments(1) == 1 && agent.environments(*envs) == *envs;
        let of_processors = nodes.saturating_mul((processors as usize).max(1));
        let workers = actors.or(envs.filter(one_each)).unwrap_or(of_processors);
        let workers = envs.map_or(workers, |envs| if actors.is_some() { workers } else { workers.min(envs) });
        let own = agent.environments(workers);
        let environments = envs.unwrap_or(own);
        if environments != own {
            output::print_error(&format!(
                "with {workers} actors and these settings, {} acts in {own} environments; a run in \
                 {environments} environments needs other settings",
                agent.name()
            ));
        }
        Cluster { nodes, workers, environments, processors, network_bytes_per_s: self.network as f64 }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates for people")]
fn describe(costs: &Costs, cluster: &Cluster, predicted: &Prediction) -> String {
    let rate = |number: f64| format!("{}/s", count(number.round() as u64));
    let traffic = |number: f64| format!("{}/s", bytes(number.round() as u64));
    let plural = |number: usize, noun: &str| {
        format!("{} {noun}{}", count(number as u64), if number == 1 { "" } else { "s" })
    };
    let mut lines = vec![format!(
        "{} in {}: {} of {} processors, {}, {}; costs of {}",
        costs.agent,
        costs.environment,
        plural(cluster.nodes, "machine"),
        cluster.processors,
        plural(cluster.workers, "actor"),
        plural(cluster.environments, "environment"),
        costs.host,
    )];
    let mut line = |what: &str, value: String| lines.push(format!("  {what:<20} {value}"));
    line("environment steps", rate(predicted.env_steps_per_s));
    line("learner steps", rate(predicted.learner_steps_per_s));
    for table in &predicted.tables {
        let (inserts, samples) = (rate(table.inserts_per_s), rate(table.samples_per_s));
        line(
            &format!("table {}", table.name),
            format!("{inserts} items inserted ({}), {samples} sampled", traffic(table.bytes_per_s)),
        );
    }
    line("experience", traffic(predicted.sent_bytes_per_s));
    line("weights", traffic(predicted.weights_bytes_per_s));
    line("first bottleneck", predicted.bottleneck().to_owned());
    let uses = predicted.uses.iter().map(|used| format!("{} {:.0} %", used.what, 100.0 * used.share));
    line("used", uses.collect::<Vec<_>>().join("; "));
    lines.join("\n")
}
