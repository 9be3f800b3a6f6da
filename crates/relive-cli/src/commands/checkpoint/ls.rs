//! `relive checkpoint ls`: lists the checkpoints of a folder or bucket.

use clap::Args;
use relive_checkpoint::{CheckpointInfo, ErrorKind};
use serde::Serialize;

use super::common::{print_json, root_of};
use super::fields::{InfoFields, info_fields};
use crate::failure::Result;
use crate::output;
use crate::units::{bytes, count, counted, utc};

/// Options of `relive checkpoint ls`.
#[derive(Debug, Args)]
pub(super) struct Options {
    /// Folder or URL of the checkpoints
    #[arg(value_name = "DIR|URL")]
    location: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    location: &'a str,
    checkpoints: Vec<InfoFields<'a>>,
}

/// Lists the checkpoints, oldest first.
pub(super) fn run(options: &Options) -> Result {
    let root = root_of(&options.location, "ls lists")?;
    let found = relive_checkpoint::list(&root)?;
    if options.json {
        let checkpoints = found.iter().map(info_fields).collect();
        return print_json(&Document { location: &options.location, checkpoints });
    }
    output::line(&text(&options.location, &found))?;
    Ok(())
}

fn text(location: &str, found: &[CheckpointInfo]) -> String {
    let headline = format!("{location}: {}", counted(found.len() as u64, "checkpoint"));
    if found.is_empty() {
        return headline;
    }
    let titles = ["name", "format", "written", "tables", "items", "bytes", "own bytes"].map(str::to_owned);
    let rows: Vec<_> = [titles].into_iter().chain(found.iter().map(row)).collect();
    let lines = output::columns(&rows, [false, false, false, true, true, true, true]);
    [headline]
        .into_iter()
        .chain(lines.into_iter().map(|line| format!("  {line}")))
        .collect::<Vec<_>>()
        .join("\n")
}

fn row(info: &CheckpointInfo) -> [String; 7] {
    let name = info.location.rsplit('/').next().unwrap_or(&info.location).to_owned();
    let written = info.written_at.map_or_else(|| "unknown".to_owned(), utc);
    let own = bytes(info.size_bytes);
    let [tables, items, total] = match &info.summary {
        Ok(summary) => [count(summary.tables.len() as u64), count(summary.items), bytes(summary.total_bytes)],
        Err(error) if error.kind() == ErrorKind::Newer => ["newer".to_owned(), String::new(), String::new()],
        Err(_) => ["damaged".to_owned(), String::new(), String::new()],
    };
    [name, info.format.to_string(), written, tables, items, total, own]
}
