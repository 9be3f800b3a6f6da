//! `relive job ls`: lists the jobs on this machine, and those at other addresses.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use serde_json::{Value, json};

use super::find::{FoundJob, JobAccess};
use crate::failure::{Failure, Kind, Result};
use crate::jobs::{self, Record};
use crate::output;
use crate::units::{count, time};

/// Options of `relive job ls`.
#[derive(Debug, Args)]
pub(super) struct Options {
    /// List the run whose tables are at this address, host:port, instead of the jobs on this machine; repeatable
    #[arg(long, value_name = "ADDR")]
    at: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    access: JobAccess,
}

/// A line of the list.
struct Row {
    name: String,
    agent: String,
    environment: String,
    state: String,
    steps: Option<u64>,
    workers: Option<usize>,
    nodes: Option<usize>,
    address: String,
    dashboard: Option<String>,
    seconds: Option<u64>,
}

/// Lists the jobs.
pub(super) fn run(options: &Options) -> Result {
    let rows: Vec<Row> = if options.at.is_empty() {
        jobs::all().into_iter().map(|record| of_record(record, &options.access)).collect()
    } else {
        let rows = options.at.iter().map(|address| of_address(address, &options.access));
        rows.collect::<Result<_>>()?
    };
    if options.json {
        let rows: Vec<Value> = rows.iter().map(Row::to_json).collect();
        return Ok(output::line(&Value::from(rows).to_string())?);
    }
    if rows.is_empty() {
        output::print_error("no job is running on this machine; --at HOST:PORT shows a run on another one");
    }
    let lines: Vec<_> =
        std::iter::once(HEADS.map(str::to_owned)).chain(rows.iter().map(Row::cells)).collect();
    Ok(output::line(&output::columns(&lines, [false; 9]).join("\n"))?)
}

fn of_address(address: &str, access: &JobAccess) -> Result<Row> {
    let found = access.to_address(address)?;
    let mut row = Row {
        name: address.to_owned(),
        agent: String::new(),
        environment: String::new(),
        state: String::new(),
        steps: None,
        workers: None,
        nodes: None,
        address: address.to_owned(),
        dashboard: None,
        seconds: None,
    };
    row.ask(&found)?;
    if row.state.is_empty() { Err(found.no_run()) } else { Ok(row) }
}

/// Returns the line of a job on this machine. A job that ended without deregistering is listed one last time, as
/// killed.
fn of_record(record: Record, access: &JobAccess) -> Row {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let job = record.job.clone();
    let mut row = Row {
        name: job.name,
        agent: job.agent,
        environment: job.environment,
        state: "starting".to_owned(),
        steps: None,
        workers: None,
        nodes: None,
        address: job.address,
        dashboard: job.http.map(|http| format!("http://{http}/")),
        seconds: Some(now.saturating_sub(record.since)),
    };
    if record.process.has_ended() {
        record.forget();
        row.state = "killed".to_owned();
        return row;
    }
    let is_visible = record.process.is_visible();
    let found = access.to_job(record);
    let silent = |failure: &Failure| match failure.kind() {
        Some(Kind::Refused) => "refuses the token",
        // A job opens its port shortly after it is listed.
        Some(Kind::Unreachable) if is_visible => "starting",
        _ => "does not answer",
    };
    match found.and_then(|found| row.ask(&found)) {
        Ok(()) => {}
        Err(failure) => silent(&failure).clone_into(&mut row.state),
    }
    row
}

impl Row {
    /// Adds the run's own report to the line.
    fn ask(&mut self, found: &FoundJob) -> Result {
        if let Some((plan, _)) = found.plan()? {
            plan.phase.name().clone_into(&mut self.state);
            (self.agent, self.environment) = (plan.agent, plan.environment);
            (self.steps, self.workers) = (Some(plan.env_steps), Some(plan.workers_in_all));
            self.nodes = (!plan.nodes.is_empty()).then_some(plan.nodes.len());
        }
        Ok(())
    }

    fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "agent": self.agent,
            "environment": self.environment,
            "state": self.state,
            "env_steps": self.steps,
            "workers": self.workers,
            "nodes": self.nodes,
            "address": self.address,
            "dashboard": self.dashboard,
            "seconds": self.seconds,
        })
    }

    fn cells(&self) -> [String; 9] {
        let number = |number: Option<usize>| number.map_or_else(String::new, |number| number.to_string());
        let since = self.seconds.map(|seconds| time(Duration::from_secs(seconds)));
        [
            self.name.clone(),
            self.agent.clone(),
            self.environment.clone(),
            self.state.clone(),
            self.steps.map(count).unwrap_or_default(),
            number(self.workers),
            number(self.nodes),
            since.unwrap_or_default(),
            self.address.clone(),
        ]
    }
}

const HEADS: [&str; 9] =
    ["name", "agent", "environment", "state", "steps", "workers", "nodes", "for", "address"];
