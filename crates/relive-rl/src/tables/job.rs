//! The description of a run, in a table, so that workers need only the server's address.

use std::time::Duration;

use relive_client::blocking::Client;
use relive_env::State;
use relive_table::TableConfig;

use super::item::{self, ShouldContinue};
use super::weights::Stamp;
use crate::identity::Identity;
use crate::{Result, state};

/// The table with the job as its only item.
pub(crate) const TABLE: &str = "job";

/// The timeout for an item that may not exist. It allows for a slow server on a busy machine, since the answer may be
/// that the run is over.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The description of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) identity: Identity,
    pub(crate) now: JobProgress,
}

/// The changing part of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct JobProgress {
    /// The number of workers.
    pub(crate) workers: u64,
    /// The number of previous checkpoints; workers do not repeat random numbers from before a checkpoint.
    pub(crate) checkpoints: u64,
    /// How many times each worker has joined the run; workers do not repeat the random numbers of an earlier process
    /// with their number.
    pub(crate) joins: Vec<u32>,
    /// The epoch of the driver, greater than the epochs of all previous drivers of the run.
    pub(crate) epoch: u64,
    /// The version of the newest weights, if there are any.
    pub(crate) version: Option<u64>,
    /// Whether the run has completed its steps, or was stopped.
    pub(crate) is_over: bool,
}

pub(crate) fn table() -> TableConfig {
    TableConfig::new(TABLE).max_size(1)
}

/// Replaces the job.
pub(crate) fn put(
    client: &Client,
    identity: &Identity,
    now: &JobProgress,
    should_continue: ShouldContinue<'_>,
) -> Result<()> {
    item::put(client, TABLE, (identity, &state::save(|state| now.clone().visit(state))), should_continue)
}

/// Returns whether a previous driver has left a job.
///
/// # Errors
/// The server is lost.
pub(crate) fn exists(client: &Client) -> Result<bool> {
    Ok(client.server_info()?.table(TABLE).is_some_and(|table| table.current_size > 0))
}

/// Returns the job, if there is one.
///
/// # Errors
/// The server is lost, or the item is not a job.
pub(crate) fn get(client: &Client) -> Result<Option<Job>> {
    let Some(columns) = item::newest_if_started(client, TABLE, TIMEOUT)? else { return Ok(None) };
    let (identity, bytes) = item::read(&columns, WHAT)?;
    let mut now = JobProgress::default();
    state::restore(WHAT, &bytes, |state| now.visit(state))?;
    Ok(Some(Job { identity, now }))
}

const WHAT: &str = "the item of the table `job`";

impl JobProgress {
    /// Returns how many earlier processes have joined as the worker with the given number.
    pub(crate) fn joins_of(&self, worker: u32) -> u32 {
        usize::try_from(worker).ok().and_then(|worker| self.joins.get(worker)).copied().unwrap_or(0)
    }

    /// Returns the stamp of the newest weights, if there are any.
    pub(crate) fn stamp(&self) -> Option<Stamp> {
        self.version.map(|version| Stamp { epoch: self.epoch, version })
    }

    fn visit(&mut self, state: &mut State<'_>) {
        let (mut is_known, mut version) = (self.version.is_some(), self.version.unwrap_or_default());
        state.field(&mut self.workers);
        state.field(&mut self.checkpoints);
        state.numbers(&mut self.joins);
        state.field(&mut self.epoch);
        state.field(&mut is_known);
        state.field(&mut version);
        state.field(&mut self.is_over);
        self.version = is_known.then_some(version);
    }
}
