//! `relive rl top`: the plan of a run at work, operator by operator.

use std::collections::{BTreeMap, HashMap};
use std::io::{IsTerminal, stdout};
use std::time::{Duration, Instant};

use clap::Args;
use relive_rl::run::look;
use serde::Deserialize;

use super::figures::parts;
use super::processes::Reach;
use crate::failure::{Failure, Kind, Result};
use crate::output;
use crate::units::{bytes, parse_seconds};

/// Options of `relive rl top`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Address of the server with the run's tables, host:port
    #[arg(value_name = "ADDR")]
    address: String,
    /// Time between two looks
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_seconds)]
    interval: Duration,
    /// Looks once
    #[arg(long)]
    once: bool,
    /// Prints JSON, one line for each look
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reach: Reach,
}

/// What a run tells of its plan.
#[derive(Debug, Deserialize)]
struct Shown {
    agent: String,
    environment: String,
    phase: Phase,
    env_steps: u64,
    learner_steps: u64,
    version_lag: Option<u64>,
    #[serde(default)]
    time_by_part: BTreeMap<String, f64>,
    operators: Vec<Operator>,
}

/// How it stands with a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Phase {
    Running,
    Over,
    Left,
}

impl Phase {
    /// What is to be said beside its figures.
    fn told(self) -> &'static str {
        match self {
            Phase::Running => "",
            Phase::Over => "; the run is over",
            Phase::Left => "; its driver has failed, another one may go on",
        }
    }
}

#[derive(Debug, Deserialize)]
struct Operator {
    name: String,
    inputs: Vec<usize>,
    shards: Option<usize>,
    items: u64,
    bytes: Option<u64>,
    queued: Option<u64>,
    errors: u64,
    waits_s: Option<f64>,
}

/// Shows the plan until the run is over, or Ctrl-C.
pub(crate) fn run(options: &Options) -> Result {
    let client = options.reach.client(&options.address, "ADDR")?;
    let mut before = Before::default();
    let mut has_seen = false;
    loop {
        let none = || {
            let text = "has no run of an agent; a run shows its plan a second after it has begun, where it is on processes or has --http";
            Failure::text(Kind::Runtime, format!("{} {text}", options.address))
        };
        let text = match look(&client) {
            Err(_) if has_seen => {
                output::complain("the run is over, or its server is gone");
                return Ok(());
            }
            looked => looked?.ok_or_else(none)?,
        };
        has_seen = true;
        let shown: Shown =
            serde_json::from_str(&text).map_err(|error| Failure::text(Kind::Runtime, error))?;
        if options.json {
            output::line(&text)?;
        } else {
            if !options.once && stdout().is_terminal() {
                // Begins at the top of an empty screen.
                output::line("\u{1b}[2J\u{1b}[H")?;
            }
            output::line(before.view(&shown).trim_end())?;
        }
        if options.once || shown.phase == Phase::Over {
            return Ok(());
        }
        std::thread::sleep(options.interval);
    }
}

/// What was seen last, for rates.
#[derive(Default)]
struct Before {
    at: Option<Instant>,
    items: HashMap<usize, u64>,
}

impl Before {
    #[expect(clippy::cast_precision_loss, reason = "rates for people")]
    fn view(&mut self, shown: &Shown) -> String {
        let seconds = self.at.replace(Instant::now()).map(|at| at.elapsed().as_secs_f64());
        let lag = shown.version_lag.map_or_else(String::new, |lag| format!(", acts {lag} versions behind"));
        let mut text = format!(
            "{} in {}: {} steps, {} learner steps{lag}{}\n{:>3}  {:<44} {:>12} {:>10} {:>10} {:>7} {:>7} {:>8}\n",
            shown.agent,
            shown.environment,
            shown.env_steps,
            shown.learner_steps,
            shown.phase.told(),
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
                format!("{:.0}", more / seconds.max(f64::MIN_POSITIVE))
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
        text
    }
}

/// The operator, with those that it pulls from.
fn named(operator: &Operator) -> String {
    let inputs: Vec<String> = operator.inputs.iter().map(ToString::to_string).collect();
    let from = if inputs.is_empty() { String::new() } else { format!(" \u{2190} {}", inputs.join(", ")) };
    let shards = operator.shards.map_or_else(String::new, |shards| format!(" in {shards} shards"));
    format!("{}{shards}{from}", operator.name)
}
