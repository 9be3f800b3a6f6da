//! `relive checkpoint inspect`: shows the contents of a checkpoint.

use clap::Args;
use relive_checkpoint::{Inspection, TableInspection};
use relive_table::RateLimiterConfig;
use serde::Serialize;

use super::common::print_json;
use super::fields::{SummaryFields, summary_fields};
use super::item::{ItemFields, item_fields, line};
use crate::failure::Result;
use crate::output;
use crate::rules::{ColumnFields, bounds, columns, selectors};
use crate::units::{bytes, count, counted, number, plural, utc};

/// Options of `relive checkpoint inspect`.
#[derive(Debug, Args)]
pub(super) struct Options {
    /// Path or URL of a checkpoint; for a folder or bucket, its newest one
    #[arg(value_name = "PATH|URL")]
    location: String,
    /// Number of items to show from each table: the first and the last ones
    #[arg(long, value_name = "N", default_value_t = 4)]
    items: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    location: &'a str,
    format: &'static str,
    written_at_s: f64,
    #[serde(flatten)]
    summary: SummaryFields<'a>,
    tables: Vec<TableFields<'a>>,
}

#[derive(Serialize)]
struct TableFields<'a> {
    name: &'a str,
    items: u64,
    chunks: u64,
    chunk_bytes: u64,
    sampler: String,
    remover: String,
    max_size: u64,
    max_bytes: Option<u64>,
    max_times_sampled: i32,
    samples_per_insert: f64,
    min_size_to_sample: i64,
    min_diff: Option<f64>,
    max_diff: Option<f64>,
    inserts: i64,
    samples: i64,
    deletes: i64,
    deleted_episodes: u64,
    unique_samples: u64,
    signature: Option<Vec<ColumnFields>>,
    sample: Vec<ItemFields>,
}

/// Shows a checkpoint.
pub(super) fn run(options: &Options) -> Result {
    let sample = usize::try_from(options.items).unwrap_or(usize::MAX);
    let shown = relive_checkpoint::inspect(&options.location, sample)?;
    if options.json {
        let tables = shown.tables.iter().map(fields).collect();
        return print_json(&Document {
            location: &shown.location,
            format: shown.format.name(),
            written_at_s: shown.summary.created_at.as_nanos() as f64 / 1e9,
            summary: summary_fields(&shown.summary),
            tables,
        });
    }
    output::line(&text(&shown))?;
    Ok(())
}

fn text(shown: &Inspection) -> String {
    let summary = &shown.summary;
    let writer = summary.software.as_ref().map(|software| format!(" by {software}")).unwrap_or_default();
    let mut lines = vec![
        format!("{}, in the format {}", shown.location, shown.format),
        format!(
            "written {}{writer}: {}, {}, {}",
            utc(summary.created_at),
            counted(summary.tables.len() as u64, "table"),
            counted(summary.items, "item"),
            bytes(summary.total_bytes)
        ),
    ];
    for table in &shown.tables {
        lines.push(String::new());
        lines.extend(self::table(table));
    }
    lines.join("\n")
}

fn table(table: &TableInspection) -> Vec<String> {
    let (summary, config) = (&table.summary, &table.summary.config);
    let (counters, limiter) = (&summary.counters, &config.rate_limiter);
    let bound = config.max_bytes.map(|most| format!(", at most {}", bytes(most))).unwrap_or_default();
    let mut lines = vec![
        format!(
            "{}: {} of {}{bound}; {} of {}",
            config.name,
            count(summary.items),
            counted(config.max_size, "item"),
            counted(table.chunks, "chunk"),
            bytes(table.chunk_bytes)
        ),
        format!("  {}", selectors(config)),
        format!(
            "  {}, {}, {}, {} sampled",
            counted(counters.inserts.unsigned_abs(), "insert"),
            counted(counters.samples.max(0).unsigned_abs(), "sample"),
            counted(counters.deletes.unsigned_abs(), "delete"),
            counted(counters.unique_samples, "item")
        ),
        format!("  limiter: {}", limiter_text(limiter)),
    ];
    if let Some(signature) = &config.signature {
        let columns: Vec<_> = columns(signature).iter().map(ColumnFields::text).collect();
        lines.push(format!("  signature: {}", columns.join(", ")));
    }
    let hidden = summary.items.saturating_sub(table.sample.len() as u64);
    let (first, last) = table.sample.split_at(table.sample.len().div_ceil(2));
    lines.extend(first.iter().map(line));
    if hidden > 0 && !table.sample.is_empty() {
        lines.push(format!("    … {} …", counted(hidden, "more item")));
    }
    lines.extend(last.iter().map(line));
    lines
}

fn limiter_text(limiter: &RateLimiterConfig) -> String {
    let least = counted(limiter.min_size_to_sample.unsigned_abs(), "item");
    let ratio = limiter.samples_per_insert;
    let ratio = format!("{} {} per insert", number(ratio), plural(ratio == 1.0, "sample"));
    match bounds(limiter) {
        (None, None) => format!("no bounds, sampling needs {least}"),
        (Some(min), Some(max)) => {
            format!("{} to {}, {ratio}, sampling needs {least}", number(min), number(max))
        }
        (Some(min), None) => format!("at least {}, {ratio}, sampling needs {least}", number(min)),
        (None, Some(max)) => format!("at most {}, {ratio}, sampling needs {least}", number(max)),
    }
}

fn fields(table: &TableInspection) -> TableFields<'_> {
    let (summary, config) = (&table.summary, &table.summary.config);
    let (counters, limiter) = (&summary.counters, &config.rate_limiter);
    let (min_diff, max_diff) = bounds(limiter);
    TableFields {
        name: &config.name,
        items: summary.items,
        chunks: table.chunks,
        chunk_bytes: table.chunk_bytes,
        sampler: config.sampler.to_string(),
        remover: config.remover.to_string(),
        max_size: config.max_size,
        max_bytes: config.max_bytes,
        max_times_sampled: config.max_times_sampled,
        samples_per_insert: limiter.samples_per_insert,
        min_size_to_sample: limiter.min_size_to_sample,
        min_diff,
        max_diff,
        inserts: counters.inserts,
        samples: counters.samples.max(0),
        deletes: counters.deletes,
        deleted_episodes: counters.deleted_episodes,
        unique_samples: counters.unique_samples,
        signature: config.signature.as_deref().map(columns),
        sample: table.sample.iter().map(item_fields).collect(),
    }
}
