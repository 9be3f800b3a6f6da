//! `relive table drop`: drops a table.

use clap::Args;

use crate::failure::Result;
use crate::output;
use crate::server::Target;

/// Options of `relive table drop`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    target: Target,
    /// Name of the table
    #[arg(value_name = "TABLE")]
    table: String,
}

/// Drops the table with all its items.
pub(super) async fn run(options: Options) -> Result {
    let client = options.target.connect().await?;
    client.drop_table(&options.table).await.map_err(|error| options.target.explain(error))?;
    output::line(&format!("table {} was dropped", options.table))?;
    Ok(())
}
