//! The counters of a run, in a table: episodes are read once, and counted before anything happens to who has read them.

use parking_lot::Mutex;
use relive_client::blocking::Client;
use relive_table::TableConfig;

use crate::experiment::identity::Identity;
use crate::experiment::saved;
use crate::experiment::tally::Tally;
use crate::{Result, state};

/// The table whose one item are the newest counters.
const TABLE: &str = "counts";

pub(super) fn table() -> TableConfig {
    TableConfig::new(TABLE).max_size(1)
}

pub(super) fn put(client: &Client, identity: &Identity, tally: &Mutex<Tally>) -> Result<()> {
    // The lock is not held while the server is waited for.
    let counters = state::save(|state| tally.lock().visit(state));
    saved::put_into(client, TABLE, identity, &counters)
}

/// Takes over the newest counters, if they are newer than `tally`.
pub(super) fn take_over(client: &Client, tally: &Mutex<Tally>) -> Result<()> {
    let Some((_, bytes)) = saved::get_from(client, TABLE)? else { return Ok(()) };
    let mut newest = Tally::new();
    state::restore("a run's counters", &bytes, |state| newest.visit(state))?;
    let mut tally = tally.lock();
    if newest.env_steps() > tally.env_steps() {
        *tally = newest;
    }
    Ok(())
}
