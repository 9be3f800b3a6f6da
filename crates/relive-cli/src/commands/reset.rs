//! `relive reset`: an empty table.

use clap::Args;

use crate::failure::Result;
use crate::output;
use crate::server::Target;

/// Options of `relive reset`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    target: Target,
    /// Name of the table
    #[arg(value_name = "TABLE")]
    table: String,
}

/// Removes all items of the table.
pub(crate) async fn run(options: Options) -> Result {
    let client = options.target.connect().await?;
    client.reset(&options.table).await?;
    output::line(&format!("table {} is empty", options.table))?;
    Ok(())
}
