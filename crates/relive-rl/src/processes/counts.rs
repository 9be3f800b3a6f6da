//! The counters of a run, in a table: results are read once, and counted before anything happens to the process that has read them.

use relive_client::blocking::Client;
use relive_table::TableConfig;

use crate::Result;
use crate::run::identity::Identity;
use crate::run::saved::{self, GoesOn};

/// The table whose one item are the newest counters.
const TABLE: &str = "counts";

pub(super) fn table() -> TableConfig {
    TableConfig::new(TABLE).max_size(1)
}

pub(crate) fn put(client: &Client, of: (&Identity, &[u8]), goes_on: GoesOn<'_>) -> Result<()> {
    saved::put_into(client, TABLE, of, goes_on)
}

/// The newest counters, if there are some.
pub(crate) fn get(client: &Client) -> Result<Option<Vec<u8>>> {
    Ok(saved::get_from(client, TABLE)?.map(|(_, counters)| counters))
}
