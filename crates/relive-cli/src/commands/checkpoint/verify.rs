//! `relive checkpoint verify`: checks every byte of a checkpoint, or of all checkpoints in a folder.

use clap::Args;
use relive_checkpoint::{Error, Location, Report};
use serde::Serialize;

use super::common::print_json;
use super::fields::{LossFields, loss_fields};
use crate::failure::{Failure, Kind, Result};
use crate::output;
use crate::progress::with_bar;
use crate::units::{bytes, counted};

/// Options of `relive checkpoint verify`.
#[derive(Debug, Args)]
pub(super) struct Options {
    /// Path or URL of a checkpoint, or of a folder or bucket of checkpoints
    #[arg(value_name = "PATH|URL")]
    location: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The maximum number of lines about the damage to one checkpoint.
const SHOWN_LOSSES: usize = 20;

/// A checkpoint, and the result of reading it.
struct Verified {
    location: String,
    outcome: std::result::Result<Report, Error>,
}

#[derive(Serialize)]
struct Document<'a> {
    location: &'a str,
    checkpoints: Vec<ReportFields<'a>>,
}

#[derive(Serialize)]
struct ReportFields<'a> {
    location: &'a str,
    whole: bool,
    items: u64,
    chunks: u64,
    files: u64,
    bytes: u64,
    losses: Vec<LossFields<'a>>,
    error: Option<String>,
}

/// Reads the checkpoints and reports damage. Damage also counts as a failure of the command.
pub(super) fn run(options: &Options) -> Result {
    let locations = match relive_checkpoint::locate(&options.location)? {
        Location::Checkpoint { .. } => vec![options.location.clone()],
        Location::Root(root) => {
            relive_checkpoint::list(&root)?.into_iter().map(|info| info.location).collect()
        }
    };
    if locations.is_empty() {
        return Err(Failure::usage(format!("there is no checkpoint in {}", options.location)));
    }
    let verified: Vec<Verified> = locations.into_iter().map(verify).collect();
    if options.json {
        let checkpoints = verified.iter().map(fields).collect();
        print_json(&Document { location: &options.location, checkpoints })?;
    } else {
        for one in &verified {
            output::line(&text(one))?;
        }
    }
    let damaged = verified.iter().filter(|one| !one.is_whole()).count();
    match (damaged, verified.len()) {
        (0, _) => Ok(()),
        (_, 1) => Err(Failure::text(Kind::Runtime, format!("{} is damaged", options.location))),
        (damaged, all) => Err(Failure::text(
            Kind::Runtime,
            format!("{damaged} of {} in {} are damaged", counted(all as u64, "checkpoint"), options.location),
        )),
    }
}

fn verify(location: String) -> Verified {
    let outcome = with_bar("verifying", |progress| relive_checkpoint::verify(&location, &progress));
    Verified { location, outcome }
}

impl Verified {
    fn is_whole(&self) -> bool {
        self.outcome.as_ref().is_ok_and(Report::is_whole)
    }
}

fn text(verified: &Verified) -> String {
    let report = match &verified.outcome {
        Err(error) => return format!("{}: damaged\n  {error}", verified.location),
        Ok(report) => report,
    };
    let size = format!(
        "{}, {}, {} in {}",
        counted(report.items, "item"),
        counted(report.chunks, "chunk"),
        bytes(report.bytes),
        counted(report.files, "file")
    );
    let state = if report.is_whole() { "whole" } else { "damaged" };
    let mut lines = vec![format!("{}: {state}; {size}", verified.location)];
    lines.extend(report.losses.iter().take(SHOWN_LOSSES).map(|loss| format!("  {loss}")));
    let hidden = report.losses.len().saturating_sub(SHOWN_LOSSES);
    if hidden > 0 {
        lines.push(format!("  and {hidden} more; --json lists them all"));
    }
    lines.join("\n")
}

fn fields(verified: &Verified) -> ReportFields<'_> {
    let report = verified.outcome.as_ref();
    let number = |of: fn(&Report) -> u64| report.map_or(0, of);
    ReportFields {
        location: &verified.location,
        whole: verified.is_whole(),
        items: number(|report| report.items),
        chunks: number(|report| report.chunks),
        files: number(|report| report.files),
        bytes: number(|report| report.bytes),
        losses: report.map_or_else(|_| Vec::new(), |report| report.losses.iter().map(loss_fields).collect()),
        error: report.err().map(ToString::to_string),
    }
}
