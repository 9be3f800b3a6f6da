//! `relive table pause` and `relive table resume`.

use clap::Args;

use super::changed;
use crate::failure::Result;
use crate::output;
use crate::server::Target;

/// Options of `relive table pause` and `relive table resume`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    target: Target,
    /// Name of the table
    #[arg(value_name = "TABLE")]
    table: String,
    /// Apply only to inserts
    #[arg(long, conflicts_with = "samples")]
    inserts: bool,
    /// Apply only to samples
    #[arg(long)]
    samples: bool,
}

/// Pauses or resumes the table.
pub(super) async fn run(options: Options, pause: bool) -> Result {
    let client = options.target.connect().await?;
    let (inserts, samples) = (!options.samples, !options.inserts);
    let changed = match pause {
        true => client.pause_table(&options.table, inserts, samples).await,
        false => client.resume_table(&options.table, inserts, samples).await,
    };
    let changed = changed.map_err(|error| options.target.explain(error))?;
    output::line(&changed::describe(&client, &options.table, &changed).await)?;
    Ok(())
}
