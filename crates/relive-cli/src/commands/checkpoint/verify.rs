//! `relive checkpoint verify`: checks every byte of a checkpoint, or of all checkpoints in a folder.

use clap::Args;
use relive_checkpoint::{Error, ErrorKind, Location, Report};
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
    /// Whether a server has removed the checkpoint since it was listed. The outcome then says nothing about damage.
    is_removed: bool,
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
    removed: bool,
    items: u64,
    chunks: u64,
    files: u64,
    bytes: u64,
    losses: Vec<LossFields<'a>>,
    error: Option<String>,
}

/// Reads the checkpoints and reports damage. Damage also counts as a failure of the command.
pub(super) fn run(options: &Options) -> Result {
    let verified = match relive_checkpoint::locate(&options.location)? {
        Location::Checkpoint { .. } => vec![verify(options.location.clone())],
        Location::Root(root) => {
            let listed = relive_checkpoint::list(&root)?.into_iter();
            listed.map(|info| verify_listed(&root, info.location)).collect::<Result<_>>()?
        }
    };
    if verified.is_empty() {
        return Err(Failure::usage(format!("there is no checkpoint in {}", options.location)));
    }
    if options.json {
        let checkpoints = verified.iter().map(fields).collect();
        print_json(&Document { location: &options.location, checkpoints })?;
    } else {
        for one in &verified {
            output::line(&text(one))?;
        }
    }
    conclusion(&options.location, &verified)
}

fn conclusion(location: &str, verified: &[Verified]) -> Result {
    let damaged = verified.iter().filter(|one| one.is_damaged()).count();
    let text = match (damaged, verified.len()) {
        (0, _) if verified.iter().any(Verified::is_whole) => return Ok(()),
        (0, _) => {
            format!("a server removed the checkpoints in {location} before they were verified; try again")
        }
        (_, 1) if verified.iter().any(Verified::is_newer) => {
            format!("{location} is from a later version of Relive")
        }
        (_, 1) => format!("{location} is damaged"),
        (damaged, all) => {
            format!("{damaged} of {} in {location} are damaged", counted(all as u64, "checkpoint"))
        }
    };
    Err(Failure::text(Kind::Runtime, text))
}

fn verify(location: String) -> Verified {
    let outcome = with_bar("verifying", |progress| relive_checkpoint::verify(&location, &progress));
    Verified { location, outcome, is_removed: false }
}

/// Verifies a checkpoint that was found in the folder or bucket `root`, where a server may still be removing the oldest
/// checkpoints.
fn verify_listed(root: &str, location: String) -> Result<Verified> {
    let verified = verify(location);
    let is_removed = verified.is_damaged()
        && !relive_checkpoint::list(root)?.iter().any(|info| info.location == verified.location);
    Ok(Verified { is_removed, ..verified })
}

impl Verified {
    fn is_whole(&self) -> bool {
        self.outcome.as_ref().is_ok_and(Report::is_whole)
    }

    fn is_newer(&self) -> bool {
        self.outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::Newer)
    }

    fn is_damaged(&self) -> bool {
        !self.is_whole() && !self.is_removed
    }
}

fn text(verified: &Verified) -> String {
    let report = match &verified.outcome {
        _ if verified.is_removed => return format!("{}: removed while it was verified", verified.location),
        Err(error) if verified.is_newer() => return format!("{}: newer\n  {error}", verified.location),
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
        removed: verified.is_removed,
        items: number(|report| report.items),
        chunks: number(|report| report.chunks),
        files: number(|report| report.files),
        bytes: number(|report| report.bytes),
        losses: report.map_or_else(|_| Vec::new(), |report| report.losses.iter().map(loss_fields).collect()),
        error: report.err().map(ToString::to_string),
    }
}

#[cfg(test)]
mod tests {
    use relive_checkpoint::Root;
    use relive_table::{CheckpointProgress, Snapshot, TableConfig, TableCounters, TableSnapshot};

    use super::*;

    fn save(root: &Root) -> String {
        let (counters, items) = (TableCounters::default(), Vec::new());
        let table = TableSnapshot { config: TableConfig::new("t").into(), counters, items, structure: None };
        let snapshot = Snapshot { tables: vec![table], ..Snapshot::default() };
        root.save(snapshot, &CheckpointProgress::default()).unwrap().location
    }

    #[test]
    fn a_checkpoint_that_a_server_removed_is_not_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let location = folder.path().to_str().unwrap();
        let root = Root::new(location).keep(1);
        let verify = |checkpoint: &str| verify_listed(location, checkpoint.to_owned()).unwrap();
        let removed = save(&root);
        let kept = save(&root);
        let (removed, whole) = (verify(&removed), verify(&kept));
        assert!(removed.is_removed && !removed.is_damaged() && whole.is_whole());
        assert!(text(&removed).ends_with("checkpoint-0000000001.relive: removed while it was verified"));
        assert!(conclusion(location, &[whole, removed]).is_ok());
        std::fs::write(&kept, "damaged").unwrap();
        let damaged = verify(&kept);
        assert!(damaged.is_damaged() && text(&damaged).contains(": damaged"));
        assert!(conclusion(location, &[damaged]).is_err());
    }
}
