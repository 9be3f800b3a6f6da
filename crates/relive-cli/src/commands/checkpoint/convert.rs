//! `relive checkpoint convert`: converts a checkpoint to another format.

use std::time::Instant;

use clap::Args;
use relive_checkpoint::{Format, LoadOptions, Loaded, summary_of_losses};
use serde::Serialize;

use super::common::print_json;
use super::fields::{LossFields, loss_fields};
use crate::choice;
use crate::failure::{Failure, Kind, Result};
use crate::output;
use crate::progress::with_bar;
use crate::units::{bytes, count, counted, time};

/// Options of `relive checkpoint convert`.
#[derive(Debug, Args)]
pub(super) struct Options {
    /// Path or URL of a checkpoint; for a folder or bucket, its newest one
    #[arg(value_name = "FROM")]
    from: String,
    /// Folder or URL for the new checkpoint; it must not have checkpoints yet
    #[arg(value_name = "TO")]
    to: String,
    /// Format of the new checkpoint
    #[arg(long, value_name = "FORMAT", value_parser = choice::parser::<Format>())]
    format: Format,
    /// Convert the intact part of a damaged checkpoint
    #[arg(long)]
    salvage: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    from: &'a str,
    to: &'a str,
    format: &'static str,
    items: u64,
    chunks: u64,
    bytes: u64,
    changed: &'a [String],
    lost_items: u64,
    losses: Vec<LossFields<'a>>,
}

/// Loads, writes, reads the result back, and compares.
pub(super) fn run(options: &Options) -> Result {
    let started = Instant::now();
    let source = with_bar("loading", |progress| {
        let load = LoadOptions::new().salvage(options.salvage).progress(progress);
        relive_checkpoint::load(&options.from, &load)
    })?;
    let (from, losses) = (source.location.clone(), source.losses.clone());
    let lost = losses.iter().map(|loss| loss.items).sum();
    check_rest(&source, lost)?;
    let target = relive_checkpoint::Target::new(&options.to, options.format)?;
    let saved = with_bar("writing", |progress| target.write(&source.snapshot, &progress))?;
    let checked = with_bar("checking", |progress| target.check(&source.snapshot, &saved, progress))?;
    if options.json {
        return print_json(&Document {
            from: &from,
            to: &saved.location,
            format: options.format.name(),
            items: checked.items,
            chunks: checked.chunks,
            bytes: saved.total_bytes,
            changed: &checked.changed,
            lost_items: lost,
            losses: losses.iter().map(loss_fields).collect(),
        });
    }
    for line in summary_of_losses(&losses) {
        output::line(&format!("lost: {line}"))?;
    }
    for changed in &checked.changed {
        output::line(&format!("changed: {changed}"))?;
    }
    let of = if lost > 0 { format!(" of {}", count(checked.items + lost)) } else { String::new() };
    output::line(&format!(
        "converted {from} to {}: {}{of}, {}, {} in {}, read back and compared",
        saved.location,
        counted(checked.items, "item"),
        counted(checked.chunks, "chunk"),
        bytes(saved.total_bytes),
        time(started.elapsed()),
    ))?;
    Ok(())
}

/// Rejects a checkpoint without intact items, because it would be converted to a checkpoint with empty tables.
fn check_rest(source: &Loaded, lost: u64) -> Result {
    if lost == 0 || source.snapshot.tables.iter().any(|table| !table.items.is_empty()) {
        return Ok(());
    }
    let (location, lost) = (&source.location, counted(lost, "item"));
    let first = source.losses.first().map(ToString::to_string).unwrap_or_default();
    let text = format!(
        "{location}: nothing can be salvaged, all {lost} are lost; no checkpoint was written; {first}"
    );
    Err(Failure::text(Kind::Runtime, text))
}
