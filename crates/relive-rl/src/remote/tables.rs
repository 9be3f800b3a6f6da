//! The tables of a run.

use std::time::Duration;

use relive_client::ErrorKind;
use relive_client::blocking::Client;
use relive_table::{RateLimiterConfig, SelectorKind, TableConfig};

use super::{counts, episodes, lease, variables};
use crate::experiment::{Stop, saved};
use crate::{Agent, Result, RlError};

/// Time between two looks for tables that are not there yet.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Episodes that nobody has read yet; of more, the oldest are forgotten.
const MAX_EPISODES: u64 = 100_000;

/// Adds what the server does not have yet. What it has must be as it would be added.
pub(super) fn add(client: &Client, agent: &dyn Agent) -> Result<()> {
    for table in missing(client, agent)? {
        let added = client.add_table(table.clone());
        // Another process may have added it in the same moment.
        if added.is_err() && !is_there(client, &table)? {
            added?;
        }
    }
    Ok(())
}

/// Looks whether the server has all of them still.
///
/// # Errors
/// [`TablesGone`](RlError::TablesGone) if it has not; it has others of these names; the server is lost.
pub(super) fn expect(client: &Client, agent: &dyn Agent) -> Result<()> {
    let gone: Vec<String> =
        missing(client, agent)?.into_iter().map(|table| format!("`{}`", table.name)).collect();
    if gone.is_empty() { Ok(()) } else { Err(RlError::TablesGone { tables: gone.join(", ") }) }
}

/// What the server does not have.
fn missing(client: &Client, agent: &dyn Agent) -> Result<Vec<TableConfig>> {
    let mut wanted = agent.tables()?;
    wanted.push(TableConfig::new(variables::TABLE).max_size(1));
    wanted.push(saved::table());
    wanted.push(counts::table());
    wanted.push(lease::table());
    let queue = TableConfig::new(episodes::TABLE).sampler(SelectorKind::Fifo).max_times_sampled(1);
    wanted.push(queue.max_size(MAX_EPISODES));
    let mut missing = Vec::new();
    for table in wanted {
        if !is_there(client, &table)? {
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

/// Waits until a learner has put parameters on a server.
pub(super) fn wait_for_learner(client: &Client, stop: &Stop) -> Result<()> {
    while !has_items(client, variables::TABLE)? {
        stop.check()?;
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

fn has_items(client: &Client, table: &str) -> Result<bool> {
    Ok(client.server_info()?.table(table).is_some_and(|found| found.current_size > 0))
}

/// Whether the table was there, but gave nothing in time.
pub(super) fn is_timeout(error: &relive_client::Error) -> bool {
    error.kind() == ErrorKind::Timeout
}

#[cfg(test)]
mod tests {
    use relive_engine::Engine;

    use super::*;
    use crate::dqn::DqnConfig;

    #[test]
    fn tables_with_other_rules_are_refused() {
        let added = |table: TableConfig| {
            let engine = Engine::builder().table(table).build().unwrap();
            let client = Client::in_process(engine).unwrap();
            add(&client, &DqnConfig::default()).and_then(|()| add(&client, &DqnConfig::default()))
        };
        added(TableConfig::new("scratch")).unwrap();
        let own = Agent::tables(&DqnConfig::default()).unwrap().remove(0);
        added(own.clone()).unwrap();
        let error = added(own.clone().max_size(5_000).sampler(SelectorKind::Fifo)).unwrap_err().to_string();
        assert!(error.contains("`replay`") && error.contains("relive table drop"), "{error}");
        assert!(error.contains("sampler is Fifo, not Prioritized(0.6)"), "{error}");
        assert!(error.contains("max_size is 5000, not 1000000"), "{error}");
        let error = added(own.rate_limiter(RateLimiterConfig::queue(3))).unwrap_err().to_string();
        assert!(error.contains("rate limiter is 1 samples per insert from 1 items on"), "{error}");
        let error = added(TableConfig::new("episodes")).unwrap_err().to_string();
        assert!(error.contains("max_times_sampled is 0, not 1"), "{error}");
    }
}
