//! The state of a run, from which it goes on, and its counters, which are newer on a server: results are read once,
//! and counted before anything happens to the process that has read them.

use relive_client::blocking::Client;
use relive_table::{Snapshot, TableConfig};

use super::item::{self, GoesOn};
use crate::Result;
use crate::identity::Identity;

/// The table whose one item is the newest state.
pub(crate) const STATE: &str = "run";

/// The table whose one item are the newest counters.
const COUNTERS: &str = "counts";

/// The table of the state.
pub(crate) fn state_table() -> TableConfig {
    TableConfig::new(STATE).max_size(1)
}

/// The table of the counters.
pub(crate) fn counter_table() -> TableConfig {
    TableConfig::new(COUNTERS).max_size(1)
}

/// How many states a snapshot's table has seen.
pub(crate) fn number_of_states(snapshot: &Snapshot) -> u64 {
    let table = snapshot.tables.iter().find(|table| table.config.name == STATE);
    table.map_or(0, |table| u64::try_from(table.counters.inserts).unwrap_or(0))
}

/// Puts a state in the place of the one before, with what it is of.
pub(crate) fn put_state(client: &Client, of: (&Identity, &[u8]), goes_on: GoesOn<'_>) -> Result<()> {
    item::put(client, STATE, of, goes_on)
}

/// The newest state, if there is one, and what it is of.
pub(crate) fn state(client: &Client) -> Result<Option<(Identity, Vec<u8>)>> {
    item::get(client, STATE)
}

/// Puts counters in the place of those before, with what they are of.
pub(crate) fn put_counters(client: &Client, of: (&Identity, &[u8]), goes_on: GoesOn<'_>) -> Result<()> {
    item::put(client, COUNTERS, of, goes_on)
}

/// The newest counters, if there are some.
pub(crate) fn counters(client: &Client) -> Result<Option<Vec<u8>>> {
    Ok(item::get(client, COUNTERS)?.map(|(_, counters)| counters))
}
