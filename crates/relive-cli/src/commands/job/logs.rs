//! `relive job logs`: the logs of a run's processes, in one stream.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use relive_rl::watching::{LogLine, LogReader};

use super::find::{FoundJob, JobSelector};
use super::plan::{Node, Phase};
use crate::failure::{Failure, Result};
use crate::output;

/// The polling interval: as often as processes write their logs.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Options of `relive job logs`.
#[derive(Debug, Args)]
pub(super) struct Options {
    #[command(flatten)]
    selector: JobSelector,
    /// Keep printing new lines until the job is over
    #[arg(long, short)]
    follow: bool,
    /// Print only the lines of this node or machine
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
}

/// Prints the lines.
pub(super) fn run(options: &Options) -> Result {
    let found = options.selector.find()?;
    let mut reader = LogReader::new(&found.client);
    let lines = reader.read()?.ok_or_else(|| found.no_run())?;
    let filter = Filter::of(options.node.as_deref(), &found, &lines)?;
    options.print(&lines, &filter)?;
    if options.follow { options.follow(&found, (reader, &filter)) } else { Ok(()) }
}

impl Options {
    /// Prints new lines until the job ends.
    fn follow(&self, found: &FoundJob, (mut reader, filter): (LogReader, &Filter)) -> Result {
        loop {
            // All lines up to the end are available when the end is detected.
            let is_over = match found.plan() {
                Err(_) if found.is_gone() => break,
                plan => plan?.is_some_and(|(plan, _)| plan.phase == Phase::Over),
            };
            match reader.read() {
                Err(_) if found.is_gone() => break,
                lines => self.print(&lines?.ok_or_else(|| found.no_run())?, filter)?,
            }
            if is_over {
                break;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        output::print_error("the job is over, or its server is gone");
        Ok(())
    }

    fn print(&self, lines: &[LogLine], filter: &Filter) -> Result {
        for line in lines.iter().filter(|line| filter.takes(line)) {
            if self.json {
                output::line(&serde_json::json!(line).to_string())?;
                continue;
            }
            let whose = format!("{} on {}", line.origin, line.host);
            if line.dropped_before > 0 {
                output::line(&format!("{whose} | ({} earlier lines were dropped)", line.dropped_before))?;
            }
            output::line(&format!("{whose} | {}", line.text))?;
        }
        Ok(())
    }
}

/// Which lines are printed.
enum Filter {
    All,
    Host(String),
    Node(Node),
}

impl Filter {
    /// # Errors
    /// The node does not exist.
    fn of(node: Option<&str>, found: &FoundJob, lines: &[LogLine]) -> Result<Filter> {
        let Some(name) = node else { return Ok(Filter::All) };
        let nodes = found.plan()?.map(|(plan, _)| plan.nodes).unwrap_or_default();
        let mut known: BTreeSet<String> = nodes.iter().map(|node| node.name.clone()).collect();
        if let Some(node) = nodes.into_iter().find(|node| node.name == name) {
            return Ok(Filter::Node(node));
        }
        known.extend(lines.iter().map(|line| line.host.clone()));
        if known.contains(name) {
            return Ok(Filter::Host(name.to_owned()));
        }
        let known: Vec<String> = known.into_iter().collect();
        let known = if known.is_empty() { "none yet".to_owned() } else { known.join(", ") };
        Err(Failure::usage(format!("--node {name}: the job has no such node or machine; known: {known}")))
    }

    fn takes(&self, line: &LogLine) -> bool {
        match self {
            Filter::All => true,
            Filter::Host(host) => line.host == *host,
            Filter::Node(node) => {
                // If a node is gone, its worker numbers now belong to other nodes.
                if node.places.is_empty() {
                    return line.host == node.host;
                }
                let worker = line.origin.strip_prefix("worker ").and_then(|number| number.parse().ok());
                worker.is_some_and(|worker| node.places.contains(&worker))
            }
        }
    }
}
