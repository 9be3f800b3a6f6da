//! A sweep from its options to its report.

use super::lock::Lock;
use super::options::Options;
use super::{plans, report, work};
use crate::commands::rl::places;
use crate::commands::rl::runs::LogFormat;
use crate::failure::Result;
use crate::output;

/// Trains, prints a line for each run, and writes the report.
pub(crate) fn run(options: &Options) -> Result {
    options.expect_together()?;
    let plans = plans::of(options)?;
    plans::check(options, &plans)?;
    places::expect_folder("--out", &options.out)?;
    let _lock = Lock::take(&options.out)?;
    let begun = plans.iter().map(plans::Plan::begun).collect::<Result<Vec<_>>>()?;
    let outcome = work::all(options, &plans, &begun);
    // The report is also written if some runs failed or were not started.
    let line = match options.logs.contains(&LogFormat::Jsonl) {
        true => report::write(&options.out, &plans)?,
        false => "no report: it requires jsonl among --logs".to_owned(),
    };
    output::line(&line)?;
    outcome
}
