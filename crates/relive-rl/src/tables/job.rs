//! What a run is, in a table: workers need to be told nothing but the server.

use std::time::Duration;

use relive_client::blocking::Client;
use relive_client::{ErrorKind, Tensor};
use relive_env::State;
use relive_table::TableConfig;

use super::item::{self, GoesOn};
use super::weights::Stamp;
use crate::identity::Identity;
use crate::{Result, RlError, state};

/// The table whose one item is the job.
pub(crate) const TABLE: &str = "job";

/// Waiting for an item that is there, or is not. A server on a busy machine takes its time, and what it says may be
/// that the run is over.
const TIMEOUT: Duration = Duration::from_secs(1);

/// What a run is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) identity: Identity,
    pub(crate) now: Now,
}

/// What changes in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Now {
    /// Workers that the run has.
    pub(crate) workers: u64,
    /// Checkpoints before: workers do not repeat what they did until then.
    pub(crate) checkpoints: u64,
    /// That of the driver; greater than those of all drivers of the run before.
    pub(crate) epoch: u64,
    /// The version of the newest weights, if there are some.
    pub(crate) version: Option<u64>,
    /// Whether it has all steps that it was to make, or was ended.
    pub(crate) is_over: bool,
}

pub(crate) fn table() -> TableConfig {
    TableConfig::new(TABLE).max_size(1)
}

/// Puts the job in the place of the one before.
pub(crate) fn put(client: &Client, identity: &Identity, mut now: Now, goes_on: GoesOn<'_>) -> Result<()> {
    item::put(client, TABLE, (identity, &state::save(|state| now.visit(state))), goes_on)
}

/// Whether there is a job, of a driver that was here before.
///
/// # Errors
/// The server is lost.
pub(crate) fn is_there(client: &Client) -> Result<bool> {
    Ok(client.server_info()?.table(TABLE).is_some_and(|table| table.current_size > 0))
}

/// The job, if there is one.
///
/// # Errors
/// The server is lost, or what is there is no job.
pub(crate) fn get(client: &Client) -> Result<Option<Job>> {
    let samples = match client.with_timeout(TIMEOUT).sample(TABLE, 1) {
        // Nobody has begun a run on this server yet.
        Err(error) if matches!(error.kind(), ErrorKind::Timeout | ErrorKind::NotFound) => return Ok(None),
        samples => samples?,
    };
    let Some(sample) = samples.first() else { return Ok(None) };
    let columns = sample.columns()?;
    let [of, now_bytes] = columns.as_slice() else {
        return Err(RlError::state(WHAT, format_args!("it has {} columns, not 2", columns.len())));
    };
    let bytes = |column: &Tensor| column.to_vec::<u8>().map_err(|error| RlError::state(WHAT, error));
    let mut now = Now::default();
    state::restore(WHAT, &bytes(now_bytes)?, |state| now.visit(state))?;
    Ok(Some(Job { identity: Identity::from_bytes(&bytes(of)?)?, now }))
}

const WHAT: &str = "the item of the table `job`";

impl Now {
    /// The newest weights, if there are some.
    pub(crate) fn stamp(&self) -> Option<Stamp> {
        self.version.map(|version| Stamp { epoch: self.epoch, version })
    }

    fn visit(&mut self, state: &mut State<'_>) {
        let (mut is_known, mut version) = (self.version.is_some(), self.version.unwrap_or_default());
        state.field(&mut self.workers);
        state.field(&mut self.checkpoints);
        state.field(&mut self.epoch);
        state.field(&mut is_known);
        state.field(&mut version);
        state.field(&mut self.is_over);
        self.version = is_known.then_some(version);
    }
}
