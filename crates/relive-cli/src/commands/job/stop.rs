//! `relive job stop`: ends a run.

use std::time::{Duration, Instant};

use clap::Args;
use relive_rl::watching::order_stop;

use super::find::{FoundJob, JobSelector};
use super::plan::{Phase, Plan};
use crate::failure::{Failure, Kind, Result};
use crate::output;
use crate::units::parse_seconds;

/// The interval at which to check whether the run has ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long the system may take to end a killed process.
const KILLED_WITHIN: Duration = Duration::from_secs(10);

/// Options of `relive job stop`.
#[derive(Debug, Args)]
pub(super) struct Options {
    #[command(flatten)]
    selector: JobSelector,
    /// How long to wait for the run to end
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = parse_seconds)]
    within: Duration,
    /// Kill the learner process of a job on this machine; everything after the last checkpoint is lost
    #[arg(long, conflicts_with = "within")]
    now: bool,
}

/// Ends the run.
pub(super) fn run(options: &Options) -> Result {
    if options.now { kill(&options.selector) } else { end(options) }
}

/// Requests a graceful stop of the run, and waits for its end.
fn end(options: &Options) -> Result {
    let found = options.selector.find()?;
    let (plan, _) = found.plan()?.ok_or_else(|| found.no_run())?;
    let name = &found.name;
    match plan.phase {
        Phase::Running => {}
        Phase::Over => return Err(Failure::text(Kind::Runtime, format!("job {name} is over"))),
        Phase::Left => {
            let text =
                "its driver has failed, so there is nothing to stop; another driver can resume the run";
            return Err(Failure::text(Kind::Runtime, format!("job {name} has no driver: {text}")));
        }
    }
    order_stop(&found.client, plan.driver.id)?;
    let until = Instant::now() + options.within;
    while !has_ended(&found, &plan)? {
        if Instant::now() >= until {
            return Err(late(name, options.within));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(output::line(&format!("{name} has ended"))?)
}

fn late(name: &str, within: Duration) -> Failure {
    let seconds = within.as_secs_f64();
    let text = format!(
        "{name} was asked to stop, but is still running after {seconds} s: an evaluation or a checkpoint can \
         take that long. It stops when that is done. `relive job logs {name}` shows what it is doing, --within \
         waits longer, and --now kills it, which loses everything after the last checkpoint"
    );
    Failure::text(Kind::Timeout, text)
}

/// Returns whether the driver that was ordered to stop has ended, according to its process if that is visible,
/// otherwise according to its server.
fn has_ended(found: &FoundJob, initial_plan: &Plan) -> Result<bool> {
    if let Some(record) = found.record.as_ref().filter(|record| record.process.is_visible()) {
        return Ok(record.process.has_ended());
    }
    match found.plan() {
        Ok(Some((plan, _))) => Ok(plan.phase != Phase::Running || plan.driver != initial_plan.driver),
        // The run has ended together with its tables, or is too busy to answer.
        Ok(None) => Ok(found.is_gone()),
        Err(_) if found.is_gone() => Ok(true),
        Err(failure) => Err(failure),
    }
}

/// Kills the process of a job on this machine. Its workers end with it.
fn kill(selector: &JobSelector) -> Result {
    let far = |whose: &str| {
        Failure::usage(format!(
            "--now kills a process on this machine, but {whose}; omit --now to stop the run gracefully"
        ))
    };
    let Some(record) = selector.record()? else {
        let found = selector.find()?;
        let (plan, _) = found.plan()?.ok_or_else(|| found.no_run())?;
        let (host, pid) = (plan.driver.host, plan.driver.pid);
        return Err(far(&format!("{} is an address, whose run is process {pid} on {host}", found.name)));
    };
    let (name, process) = (&record.job.name, &record.process);
    if !process.is_visible() {
        return Err(far(&format!("{name} is process {} on {}", process.pid, process.place())));
    }
    process.kill()?;
    if !process.ends_within(KILLED_WITHIN) {
        let text = "was killed but still exists: the system is waiting for its disk or network I/O";
        return Err(Failure::text(Kind::Timeout, format!("process {} of {name} {text}", process.pid)));
    }
    record.forget();
    Ok(output::line(&format!("{name} was killed"))?)
}
