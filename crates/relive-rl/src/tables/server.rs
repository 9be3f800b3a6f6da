//! The tables on a server, compared with the tables that a run needs.

use relive_client::blocking::Client;
use relive_table::{RateLimiterConfig, TableConfig};

use crate::{Result, RlError};

/// Adds the tables that the server lacks. Existing tables must match.
pub(crate) fn add(client: &Client, wanted: &[TableConfig]) -> Result<()> {
    for table in missing(client, wanted)? {
        let added = client.add_table(table.clone());
        // Another process may have added the table at the same moment.
        if added.is_err() && !exists(client, table)? {
            added?;
        }
    }
    Ok(())
}

/// Checks that the server still has all tables.
///
/// # Errors
/// [`TablesGone`](RlError::TablesGone) if tables are missing. Also fails if the server has different tables with these
/// names, or is lost.
pub(crate) fn expect(client: &Client, wanted: &[TableConfig]) -> Result<()> {
    let gone: Vec<String> =
        missing(client, wanted)?.into_iter().map(|table| format!("`{}`", table.name)).collect();
    if gone.is_empty() { Ok(()) } else { Err(RlError::TablesGone { tables: gone.join(", ") }) }
}

/// Returns the tables that the server lacks.
fn missing<'t>(client: &Client, wanted: &'t [TableConfig]) -> Result<Vec<&'t TableConfig>> {
    let mut missing = Vec::new();
    for table in wanted {
        if !exists(client, table)? {
            missing.push(table);
        }
    }
    Ok(missing)
}

/// # Errors
/// The table exists with different rules, or the server is lost.
fn exists(client: &Client, wanted: &TableConfig) -> Result<bool> {
    let info = client.server_info()?;
    let Some(found) = info.table(&wanted.name) else { return Ok(false) };
    let differences = differences(&found.config, wanted);
    if differences.is_empty() {
        return Ok(true);
    }
    Err(RlError::OtherTable { table: wanted.name.clone(), differences: differences.join("; ") })
}

/// Returns the differences from the required configuration. The operator may choose the number of shards and the limits
/// on bytes.
fn differences(found: &TableConfig, wanted: &TableConfig) -> Vec<String> {
    let columns = |table: &TableConfig| match &table.signature {
        Some(signature) => format!("a signature of {} columns", signature.flatten_with_paths().len()),
        None => "none".to_owned(),
    };
    let pairs = |table: &TableConfig| {
        [
            ("sampler", table.sampler.to_string()),
            ("remover", table.remover.to_string()),
            ("max_size", table.max_size.to_string()),
            ("max_times_sampled", table.max_times_sampled.max(0).to_string()),
            ("rate limiter", limits(&table.rate_limiter)),
            ("signature", columns(table)),
        ]
    };
    let both = pairs(found).into_iter().zip(pairs(wanted));
    let differing = both.filter(|(found, wanted)| found != wanted);
    differing.map(|((name, found), (_, wanted))| format!("{name} is {found}, but must be {wanted}")).collect()
}

fn limits(limiter: &RateLimiterConfig) -> String {
    let RateLimiterConfig { samples_per_insert, min_size_to_sample, min_diff, max_diff } = limiter;
    format!(
        "{samples_per_insert} samples per insert after {min_size_to_sample} items, cursor in {min_diff:e}..={max_diff:e}"
    )
}
