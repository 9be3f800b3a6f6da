//! `relive checkpoint prune`: removes old checkpoints.

use clap::Args;
use serde::Serialize;

use super::common::{print_json, root_of};
use crate::failure::Result;
use crate::output;
use crate::units::{bytes, counted};

/// Options of `relive checkpoint prune`.
#[derive(Debug, Args)]
pub(super) struct Options {
    /// Folder or URL of the checkpoints; no server may write there
    #[arg(value_name = "DIR|URL")]
    location: String,
    /// How many checkpoints to keep, counting both formats together
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    keep: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    location: &'a str,
    removed: &'a [String],
    bytes: u64,
}

/// Removes old checkpoints, and lists them.
pub(super) fn run(options: &Options) -> Result {
    let keep = usize::try_from(options.keep).unwrap_or(usize::MAX);
    let root = root_of(&options.location, "prune works on")?;
    let pruned = relive_checkpoint::prune(&root, keep)?;
    if options.json {
        let (location, removed) = (options.location.as_str(), pruned.checkpoints.as_slice());
        return print_json(&Document { location, removed, bytes: pruned.bytes });
    }
    for location in &pruned.checkpoints {
        output::line(&format!("removed {location}"))?;
    }
    let removed = counted(pruned.checkpoints.len() as u64, "checkpoint");
    output::line(&format!("{}: {removed} removed, {} freed", options.location, bytes(pruned.bytes)))?;
    Ok(())
}
