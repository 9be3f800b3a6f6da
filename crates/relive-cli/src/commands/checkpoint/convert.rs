//! `relive checkpoint convert`: the same in another format.

use std::time::Instant;

use clap::Args;
use relive_checkpoint::LoadOptions;
use serde::Serialize;

use super::fields::{LossFields, loss_fields};
use super::run::print_json;
use crate::checkpoints::FormatChoice;
use crate::failure::Result;
use crate::output;
use crate::progress::with_bar;
use crate::units::{bytes, counted, time};

/// Options of `relive checkpoint convert`.
#[derive(Debug, Args)]
pub(super) struct Options {
    /// Path or URL of a checkpoint; of a folder or bucket, its newest is taken
    #[arg(value_name = "FROM")]
    from: String,
    /// Folder or URL for the new checkpoint; there must be none in it
    #[arg(value_name = "TO")]
    to: String,
    /// Format of the new checkpoint
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: FormatChoice,
    /// Convert what is whole of a damaged checkpoint
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
    losses: Vec<LossFields<'a>>,
}

/// Loads, writes, reads what was written, and compares.
pub(super) fn run(options: &Options) -> Result {
    let started = Instant::now();
    let source = with_bar("loading", |progress| {
        let load = LoadOptions::new().salvage(options.salvage).progress(progress);
        relive_checkpoint::load(&options.from, &load)
    })?;
    let (from, losses) = (source.location.clone(), source.losses.clone());
    let target = relive_checkpoint::Target::new(&options.to, options.format.into())?;
    let saved = with_bar("writing", |progress| target.write(&source.snapshot, &progress))?;
    let checked = with_bar("checking", |progress| target.check(&source.snapshot, &saved, progress))?;
    if options.json {
        return print_json(&Document {
            from: &from,
            to: &saved.location,
            format: relive_checkpoint::Format::from(options.format).name(),
            items: checked.items,
            chunks: checked.chunks,
            bytes: saved.total_bytes,
            changed: &checked.changed,
            losses: losses.iter().map(loss_fields).collect(),
        });
    }
    for loss in &losses {
        output::line(&format!("lost: {loss}"))?;
    }
    for changed in &checked.changed {
        output::line(&format!("changed: {changed}"))?;
    }
    output::line(&format!(
        "{from} is now {}: {}, {}, {} in {}, read back and compared",
        saved.location,
        counted(checked.items, "item"),
        counted(checked.chunks, "chunk"),
        bytes(saved.total_bytes),
        time(started.elapsed()),
    ))?;
    Ok(())
}
