//! `relive table add`: adds tables of a configuration to a server.

use std::path::PathBuf;

use clap::Args;
use relive_table::TableConfig;

use crate::config;
use crate::failure::{Failure, Result};
use crate::output;
use crate::server::Target;
use crate::units::count;

/// Options of `relive table add`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    target: Target,
    /// Add only these tables of the configuration
    #[arg(value_name = "TABLE")]
    tables: Vec<String>,
    /// Configuration with the new tables, as for `relive serve`; its other keys are ignored
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

/// Adds the missing tables, one after the other.
pub(super) async fn run(options: Options) -> Result {
    let requested = requested_tables(config::load(&options.config)?.tables, &options)?;
    let client = options.target.connect().await?;
    let info = client.server_info().await.map_err(|error| options.target.explain(error))?;
    for table in requested {
        let name = table.name.clone();
        if info.tables.iter().any(|known| known.config.name == name) {
            output::line(&format!("table {name} already exists and was not changed"))?;
            continue;
        }
        let line = format!("table {name} was added, with a max_size of {} items", count(table.max_size));
        client.add_table(table).await.map_err(|error| options.target.explain(error))?;
        output::line(&line)?;
    }
    Ok(())
}

/// Returns the named tables, or all tables if none are named.
fn requested_tables(tables: Vec<TableConfig>, options: &Options) -> Result<Vec<TableConfig>> {
    let source = options.config.display();
    let is_unknown = |name: &&String| !tables.iter().any(|table| table.name == **name);
    if let Some(unknown) = options.tables.iter().find(is_unknown) {
        let known = tables.iter().map(|table| table.name.as_str()).collect::<Vec<_>>().join(", ");
        return Err(Failure::usage(format!("{source} has no table {unknown}; it has: {known}")));
    }
    let is_wanted = |table: &TableConfig| options.tables.is_empty() || options.tables.contains(&table.name);
    Ok(tables.into_iter().filter(is_wanted).collect())
}
