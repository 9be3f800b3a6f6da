//! The counters of a run, in a table: episodes are read once, and counted before anything happens to who has read them.

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

pub(super) fn put(client: &Client, identity: &Identity, tally: &mut Tally) -> Result<()> {
    saved::put_into(client, TABLE, identity, &state::save(|state| tally.visit(state)))
}

/// The newest counters, if they are newer than `tally`.
pub(super) fn newer(client: &Client, tally: &Tally) -> Result<Option<Tally>> {
    let Some((_, bytes)) = saved::get_from(client, TABLE)? else { return Ok(None) };
    let mut newest = Tally::new();
    state::restore("a run's counters", &bytes, |state| newest.visit(state))?;
    Ok((newest.env_steps() > tally.env_steps()).then_some(newest))
}
