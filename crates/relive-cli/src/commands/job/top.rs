//! `relive job top`: a live view of a run, by operator and by worker.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use clap::Args;

use super::find::JobSelector;
use super::plan::{Operator, Phase, Plan};
use crate::commands::rl::parts;
use crate::failure::Result;
use crate::output;
use crate::units::{bytes, parse_seconds, per_second};

/// The maximum number of workers that are shown individually.
const MAX_WORKERS: usize = 40;

/// Options of `relive job top`.
#[derive(Debug, Args)]
pub(super) struct Options {
    #[command(flatten)]
    selector: JobSelector,
    /// Time between two updates
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_seconds)]
    interval: Duration,
    /// Show the job once, and exit
    #[arg(long)]
    once: bool,
    /// Print JSON, one line for each update
    #[arg(long)]
    json: bool,
}

/// Shows the run until it ends, or until Ctrl-C.
pub(super) fn run(options: &Options) -> Result {
    let found = options.selector.find()?;
    let mut before = Before::default();
    let mut has_seen = false;
    loop {
        let (plan, text) = match found.plan() {
            Err(_) | Ok(None) if has_seen && found.is_gone() => {
                output::print_error("the job is over, or its server is gone");
                return Ok(());
            }
            looked => looked?.ok_or_else(|| found.no_run())?,
        };
        has_seen = true;
        if options.json {
            output::line(&text)?;
        } else {
            if !options.once && output::stdout_is_terminal() {
                // Starts at the top of an empty screen.
                output::line("\u{1b}[2J\u{1b}[H")?;
            }
            output::line(before.view(&plan).trim_end())?;
        }
        if options.once || plan.phase == Phase::Over {
            return Ok(());
        }
        std::thread::sleep(options.interval);
    }
}

impl Phase {
    /// Returns a note about the run's figures while the run is in this state.
    fn describe(self) -> &'static str {
        match self {
            Phase::Running => "",
            Phase::Over => "; the run is over",
            Phase::Left => "; its driver has failed, another one can resume the run",
        }
    }
}

/// The previous snapshot, for rates.
#[derive(Default)]
struct Before {
    at: Option<Instant>,
    items: HashMap<usize, u64>,
}

impl Before {
    #[expect(clippy::cast_precision_loss, reason = "rates for people")]
    fn view(&mut self, shown: &Plan) -> String {
        let seconds = self.at.replace(Instant::now()).map(|at| at.elapsed().as_secs_f64());
        let lag =
            shown.version_lag.map_or_else(String::new, |lag| format!(", acting {lag} gradient steps behind"));
        let mut text = format!(
            "{} in {}: {} steps, {} learner steps{lag}{}\n{:>3}  {:<44} {:>12} {:>10} {:>10} {:>7} {:>7} {:>8}\n",
            shown.agent,
            shown.environment,
            shown.env_steps,
            shown.learner_steps,
            shown.phase.describe(),
            "",
            "operator",
            "items",
            "items/s",
            "bytes",
            "queue",
            "errors",
            "waits"
        );
        for (number, operator) in shown.operators.iter().enumerate() {
            let earlier = self.items.insert(number, operator.items);
            let rate = seconds.zip(earlier).map(|(seconds, earlier)| {
                let more = operator.items.saturating_sub(earlier) as f64;
                per_second(more / seconds.max(f64::MIN_POSITIVE))
            });
            let waits = operator.waits_s.map_or_else(String::new, |waits| format!("{waits:.1} s"));
            let (rate, items, errors) = (rate.unwrap_or_default(), operator.items, operator.errors);
            let size = operator.bytes.map_or_else(String::new, bytes);
            let queued = operator.queued.map_or_else(String::new, |queued| queued.to_string());
            text += &format!(
                "{number:>3}  {:<44} {items:>12} {rate:>10} {size:>10} {queued:>7} {errors:>7} {waits:>8}\n",
                named(operator)
            );
        }
        if !shown.time_by_part.is_empty() {
            text += &format!("time: {}\n", parts(&shown.time_by_part));
        }
        text + &workers(shown) + &nodes(shown)
    }
}

/// Returns a row for each worker.
fn workers(shown: &Plan) -> String {
    if shown.workers.is_empty() {
        return String::new();
    }
    let heads = ["", "steps", "episodes", "restarts", "weights", "behind", "last seen"];
    let mut text = row("worker", &heads.map(str::to_owned));
    for worker in shown.workers.iter().take(MAX_WORKERS) {
        let counts = [worker.env_steps, worker.episodes, worker.restarts].map(|count| count.to_string());
        let [steps, episodes, restarts] = counts;
        let [version, lag] = [worker.weights_version, worker.version_lag].map(number);
        let seen = ago(worker.seen_seconds);
        text +=
            &row(&worker.worker.to_string(), &[String::new(), steps, episodes, restarts, version, lag, seen]);
    }
    let more = shown.workers_in_all.saturating_sub(shown.workers.len().min(MAX_WORKERS));
    if more > 0 { text + &format!("{more} more workers\n") } else { text }
}

/// Returns the nodes, if the run reports them.
fn nodes(shown: &Plan) -> String {
    if shown.nodes.is_empty() {
        return String::new();
    }
    let heads = ["state", "steps", "workers", "restarts", "weights", "host", "last seen"];
    let mut text = row("node", &heads.map(str::to_owned));
    for node in &shown.nodes {
        let [steps, restarts] = [node.env_steps, node.restarts].map(|count| count.to_string());
        let [version, workers] = [node.weights_version, node.workers].map(number);
        let (state, host, seen) = (node.state.clone(), node.host.clone(), ago(node.seen_seconds));
        text += &row(&node.name, &[state, steps, workers, restarts, version, host, seen]);
    }
    text
}

fn row(name: &str, cells: &[String; 7]) -> String {
    let cells: Vec<String> = cells.iter().map(|cell| format!("{cell:>12}")).collect();
    format!("{name:<16}{}\n", cells.join(" "))
}

fn number(number: Option<u64>) -> String {
    number.map_or_else(String::new, |number| number.to_string())
}

fn ago(seconds: Option<f64>) -> String {
    seconds.map_or_else(String::new, |seconds| format!("{seconds:.1} s ago"))
}

/// Returns the operator, with the operators that it pulls from.
fn named(operator: &Operator) -> String {
    let inputs: Vec<String> = operator.inputs.iter().map(ToString::to_string).collect();
    let from = if inputs.is_empty() { String::new() } else { format!(" \u{2190} {}", inputs.join(", ")) };
    let shards = operator.shards.map_or_else(String::new, |shards| format!(" in {shards} shards"));
    format!("{}{shards}{from}", operator.name)
}
