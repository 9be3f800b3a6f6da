//! `relive table set`: changes the rules of a table in use.

use clap::Args;
use relive_client::TableChange;

use super::changed;
use crate::failure::{Failure, Result};
use crate::output;
use crate::server::Target;
use crate::units::parse_bytes;

/// Options of `relive table set`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    target: Target,
    /// Name of the table
    #[arg(value_name = "TABLE")]
    table: String,
    /// Maximum number of items; the remover chooses which excess items are evicted
    #[arg(long, value_name = "ITEMS", allow_negative_numbers = true)]
    max_size: Option<u64>,
    /// Maximum bytes of the table's chunks, as in 8GB or 1.5GiB, or `none`
    #[arg(long, value_name = "BYTES", value_parser = parse_bound)]
    max_bytes: Option<Bound>,
    /// Number of samples after which an item is deleted; 0: never
    #[arg(long, value_name = "TIMES", allow_negative_numbers = true)]
    max_times_sampled: Option<i32>,
    /// Samples per insert that the limiter maintains from now on
    #[arg(long, value_name = "RATIO", allow_negative_numbers = true)]
    samples_per_insert: Option<f64>,
    /// Items that the table must hold before it may be sampled
    #[arg(long, value_name = "ITEMS", allow_negative_numbers = true)]
    min_size: Option<i64>,
    /// Lower bound of the limiter's cursor: samples that would move it below wait
    #[arg(long, value_name = "CURSOR", allow_negative_numbers = true)]
    min_diff: Option<f64>,
    /// Upper bound of the limiter's cursor: inserts that would move it above wait
    #[arg(long, value_name = "CURSOR", allow_negative_numbers = true)]
    max_diff: Option<f64>,
}

/// A number of bytes, or no bound.
#[derive(Debug, Clone, Copy)]
struct Bound(Option<u64>);

fn parse_bound(text: &str) -> std::result::Result<Bound, String> {
    match text {
        "none" => Ok(Bound(None)),
        text => parse_bytes(text).map(|bytes| Bound(Some(bytes))),
    }
}

/// Changes either all of the given rules or none of them.
pub(super) async fn run(options: Options) -> Result {
    let change = options.change();
    if change.is_empty() {
        return Err(Failure::usage("no rule was given; give at least one, see `relive table set --help`"));
    }
    let client = options.target.connect().await?;
    let changed = client.change_table(&options.table, change).await;
    let changed = changed.map_err(|error| options.target.explain(error))?;
    output::line(&changed::describe(&client, &options.table, &changed).await)?;
    Ok(())
}

impl Options {
    fn change(&self) -> TableChange {
        TableChange {
            max_size: self.max_size,
            max_bytes: self.max_bytes.map(|Bound(bytes)| bytes),
            max_times_sampled: self.max_times_sampled,
            samples_per_insert: self.samples_per_insert,
            min_size_to_sample: self.min_size,
            min_diff: self.min_diff,
            max_diff: self.max_diff,
            ..TableChange::default()
        }
    }
}
