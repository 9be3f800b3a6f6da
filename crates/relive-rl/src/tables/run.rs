//! The state from which a run resumes, and its counters. On a server the counters are newer: results can only
//! be read once, so they are counted before the process that has read them can fail.

use relive_client::blocking::Client;
use relive_table::{Snapshot, TableConfig};

use super::item::{self, ShouldContinue};
use crate::Result;
use crate::identity::Identity;

/// The table with the newest state as its only item.
pub(crate) const STATE: &str = "run";

/// The table with the newest counters as its only item.
const COUNTERS: &str = "counts";

/// Returns the table of the state.
pub(crate) fn state_table() -> TableConfig {
    TableConfig::new(STATE).max_size(1)
}

/// Returns the table of the counters.
pub(crate) fn counter_table() -> TableConfig {
    TableConfig::new(COUNTERS).max_size(1)
}

/// Returns how many states were written to a snapshot's table.
pub(crate) fn number_of_states(snapshot: &Snapshot) -> u64 {
    let table = snapshot.tables.iter().find(|table| table.config.name == STATE);
    table.map_or(0, |table| u64::try_from(table.counters.inserts).unwrap_or(0))
}

/// Replaces the state and the identity of its run.
pub(crate) fn put_state(
    client: &Client,
    of: (&Identity, &[u8]),
    should_continue: ShouldContinue<'_>,
) -> Result<()> {
    item::put(client, STATE, of, should_continue)
}

/// Returns the newest state with its run's identity, if there is one.
pub(crate) fn state(client: &Client) -> Result<Option<(Identity, Vec<u8>)>> {
    item::get(client, STATE)
}

/// Replaces the counters and their run's identity.
pub(crate) fn put_counters(
    client: &Client,
    of: (&Identity, &[u8]),
    should_continue: ShouldContinue<'_>,
) -> Result<()> {
    item::put(client, COUNTERS, of, should_continue)
}

/// Returns the newest counters, if there are any.
pub(crate) fn counters(client: &Client) -> Result<Option<Vec<u8>>> {
    Ok(item::get(client, COUNTERS)?.map(|(_, counters)| counters))
}
