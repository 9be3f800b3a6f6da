//! The tables of a run.

use std::time::Duration;

use relive_client::ErrorKind;
use relive_client::blocking::Client;
use relive_table::{SelectorKind, TableConfig};

use super::{episodes, variables};
use crate::experiment::{Stop, saved};
use crate::{Agent, Result};

/// Time between two looks for tables that are not there yet.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Episodes that nobody has read yet; of more, the oldest are forgotten.
const MAX_EPISODES: u64 = 100_000;

/// Adds what the server does not have yet.
pub(super) fn add(client: &Client, agent: &dyn Agent) -> Result<()> {
    let mut wanted = agent.tables()?;
    wanted.push(TableConfig::new(variables::TABLE).max_size(1));
    wanted.push(saved::table());
    let queue = TableConfig::new(episodes::TABLE).sampler(SelectorKind::Fifo).max_times_sampled(1);
    wanted.push(queue.max_size(MAX_EPISODES));
    let there = names(client)?;
    for table in wanted.into_iter().filter(|table| !there.contains(&table.name)) {
        client.add_table(table)?;
    }
    Ok(())
}

/// Waits until a learner has put parameters on a server.
///
/// # Errors
/// The server cannot be reached, or `stop` was told.
pub fn wait_for_learner(client: &Client, stop: &Stop) -> Result<()> {
    let mut is_told = false;
    while !has_items(client, variables::TABLE)? {
        stop.check()?;
        if !is_told {
            tracing::info!("waiting for a learner");
            is_told = true;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

fn has_items(client: &Client, table: &str) -> Result<bool> {
    let info = client.server_info()?;
    Ok(info.tables.iter().any(|found| found.config.name == table && found.current_size > 0))
}

fn names(client: &Client) -> Result<Vec<String>> {
    Ok(client.server_info()?.tables.into_iter().map(|table| table.config.name.clone()).collect())
}

/// Whether the table was there, but gave nothing in time.
pub(super) fn is_timeout(error: &relive_client::Error) -> bool {
    error.kind() == ErrorKind::Timeout
}
