//! The tables of a run.

use relive_client::ErrorKind;
use relive_client::blocking::Client;
use relive_table::{RateLimiterConfig, TableConfig};

use super::{counts, job, lease, nodes, orders, results, weights};
use crate::run::{saved, shown};
use crate::watching::{log_tables, stop_table};
use crate::{Agent, Result, RlError};

/// All that a run of so many workers needs.
///
/// # Errors
/// Rules of the agent that no table can keep.
pub(crate) fn of_run(agent: &dyn Agent, workers: usize) -> Result<Vec<TableConfig>> {
    let mut all = agent.tables()?;
    all.extend(beside_the_agents(workers));
    Ok(all)
}

/// Those that are not the agent's.
pub(crate) fn beside_the_agents(workers: usize) -> impl Iterator<Item = TableConfig> {
    let own = [
        job::table(),
        weights::table(),
        results::table(),
        lease::table(),
        saved::table(),
        counts::table(),
        shown::table(),
        stop_table(),
    ];
    let orders = (0..workers).map(orders::table);
    own.into_iter().chain(nodes::tables()).chain(orders).chain(log_tables(workers))
}

/// Adds what the server does not have yet. What it has must be as it would be added.
pub(crate) fn add(client: &Client, wanted: &[TableConfig]) -> Result<()> {
    for table in missing(client, wanted)? {
        let added = client.add_table(table.clone());
        // Another process may have added it in the same moment.
        if added.is_err() && !is_there(client, table)? {
            added?;
        }
    }
    Ok(())
}

/// Looks whether the server has all of them still.
///
/// # Errors
/// [`TablesGone`](RlError::TablesGone) if it has not; it has others of these names; the server is lost.
pub(crate) fn expect(client: &Client, wanted: &[TableConfig]) -> Result<()> {
    let gone: Vec<String> =
        missing(client, wanted)?.into_iter().map(|table| format!("`{}`", table.name)).collect();
    if gone.is_empty() { Ok(()) } else { Err(RlError::TablesGone { tables: gone.join(", ") }) }
}

/// What the server does not have.
fn missing<'t>(client: &Client, wanted: &'t [TableConfig]) -> Result<Vec<&'t TableConfig>> {
    let mut missing = Vec::new();
    for table in wanted {
        if !is_there(client, table)? {
            missing.push(table);
        }
    }
    Ok(missing)
}

/// # Errors
/// It is, but with other rules; the server is lost.
fn is_there(client: &Client, wanted: &TableConfig) -> Result<bool> {
    let info = client.server_info()?;
    let Some(found) = info.table(&wanted.name) else { return Ok(false) };
    let differences = differences(&found.config, wanted);
    if differences.is_empty() {
        return Ok(true);
    }
    Err(RlError::OtherTable { table: wanted.name.clone(), differences: differences.join("; ") })
}

/// What is otherwise than it must be. Into how many shards a table is divided, and bounds on its bytes, are the operator's.
fn differences(found: &TableConfig, wanted: &TableConfig) -> Vec<String> {
    let columns = |table: &TableConfig| match &table.signature {
        Some(signature) => format!("of {} columns", signature.flatten_with_paths().len()),
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
    differing.map(|((name, found), (_, wanted))| format!("its {name} is {found}, not {wanted}")).collect()
}

fn limits(limiter: &RateLimiterConfig) -> String {
    let RateLimiterConfig { samples_per_insert, min_size_to_sample, min_diff, max_diff } = limiter;
    format!(
        "{samples_per_insert} samples per insert from {min_size_to_sample} items on, cursor in {min_diff:e}..={max_diff:e}"
    )
}

/// Whether an error may be that the server is gone, or its tables are since it has come back.
pub(crate) fn is_loss(error: &RlError) -> bool {
    use ErrorKind::{Cancelled, NotFound, Timeout, Unavailable};
    match error.cause() {
        RlError::Replay(error) => matches!(error.kind(), Cancelled | NotFound | Timeout | Unavailable),
        _ => false,
    }
}

/// Whether the table was there, but gave nothing in time.
pub(super) fn is_timeout(error: &relive_client::Error) -> bool {
    error.kind() == ErrorKind::Timeout
}

#[cfg(test)]
mod tests {
    use relive_engine::Engine;
    use relive_table::SelectorKind;

    use super::*;

    #[test]
    fn tables_with_other_rules_are_refused() {
        let own = TableConfig::new("replay").sampler(SelectorKind::Prioritized { exponent: 0.6 });
        let added = |table: TableConfig| {
            let engine = Engine::builder().table(table).build().unwrap();
            let client = Client::in_process(engine).unwrap();
            let wanted: Vec<_> = std::iter::once(own.clone()).chain(beside_the_agents(2)).collect();
            add(&client, &wanted).and_then(|()| add(&client, &wanted)).and_then(|()| expect(&client, &wanted))
        };
        added(TableConfig::new("scratch")).unwrap();
        added(own.clone()).unwrap();
        let error = added(own.clone().max_size(5_000).sampler(SelectorKind::Fifo)).unwrap_err().to_string();
        assert!(error.contains("`replay`") && error.contains("relive table drop"), "{error}");
        assert!(error.contains("sampler is Fifo, not Prioritized(0.6)"), "{error}");
        assert!(error.contains("max_size is 5000, not 1000000"), "{error}");
        let error = added(own.clone().rate_limiter(RateLimiterConfig::queue(3))).unwrap_err().to_string();
        assert!(error.contains("rate limiter is 1 samples per insert from 1 items on"), "{error}");
        let error = added(TableConfig::new("results")).unwrap_err().to_string();
        assert!(error.contains("max_times_sampled is 0, not 1"), "{error}");
        let engine = Engine::builder().table(TableConfig::new("scratch")).build().unwrap();
        let error = expect(&Client::in_process(engine).unwrap(), &[own]).unwrap_err().to_string();
        assert!(error.contains("without the tables `replay`"), "{error}");
    }
}
