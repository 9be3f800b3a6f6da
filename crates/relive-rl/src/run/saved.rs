//! A run on disk: a checkpoint of its tables, of which one has an item with all that is no table.

use std::time::Duration;

use relive_checkpoint::{LoadOptions, Store};
use relive_client::blocking::Client;
use relive_client::{ErrorKind, Nest, Tensor};
use relive_engine::Engine;
use relive_table::{CheckpointProgress, Snapshot, TableConfig};

use super::identity::Identity;
use super::options::Checkpoints;
use crate::{Result, RlError};

/// The table of saved runs.
pub(crate) const TABLE: &str = "run";

/// Checkpoints that are kept: the newest, and the one before.
const KEPT: usize = 2;

/// What to do about another run's folder.
const ADVICE: &str = "ask for the same, or give another folder for checkpoints";

/// Where they are, in messages.
const WHAT: &str = "the folder of checkpoints";

/// Reading an item that is there does not wait.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a server may take to confirm an item before it is asked once more, at first.
const FIRST_PATIENCE: Duration = Duration::from_secs(4);

/// The same in the end: then the server is lost.
const MOST_PATIENCE: Duration = Duration::from_secs(30);

/// The table whose one item is the newest state.
pub(crate) fn table() -> TableConfig {
    TableConfig::new(TABLE).max_size(1)
}

/// How many states a snapshot's table has seen.
pub(crate) fn number(snapshot: &Snapshot) -> u64 {
    let table = snapshot.tables.iter().find(|table| table.config.name == TABLE);
    table.map_or(0, |table| u64::try_from(table.counters.inserts).unwrap_or(0))
}

/// Whether a run is to go on: whoever waits for its server asks now and then.
pub(crate) type GoesOn<'a> = &'a dyn Fn() -> bool;

/// Puts a state in the place of the one before, with what it is of.
pub(crate) fn put(client: &Client, identity: &Identity, state: &[u8], goes_on: GoesOn<'_>) -> Result<()> {
    put_into(client, TABLE, (identity, state), goes_on)
}

/// The same in another table of one item.
pub(crate) fn put_into(
    client: &Client,
    table: &str,
    (identity, state): (&Identity, &[u8]),
    goes_on: GoesOn<'_>,
) -> Result<()> {
    let step = Nest::dict([("of", leaf(&identity.to_bytes()?)?), ("state", leaf(state)?)]);
    insert(client, &[table], &step, goes_on)
}

/// Puts a step into tables, of which it is sent to all at once. A server that does not answer is given ever more time, but only while the run goes on.
pub(crate) fn insert(
    client: &Client,
    tables: &[&str],
    step: &Nest<Tensor>,
    goes_on: GoesOn<'_>,
) -> Result<()> {
    let priorities: Vec<(&str, f64)> = tables.iter().map(|table| (*table, 1.0)).collect();
    let mut patience = FIRST_PATIENCE;
    loop {
        match client.with_timeout(patience).insert(step, &priorities) {
            Err(error) if error.kind() == ErrorKind::Timeout && patience < MOST_PATIENCE && goes_on() => {
                patience = patience.saturating_mul(2).min(MOST_PATIENCE);
            }
            inserted => return Ok(inserted?),
        }
    }
}

pub(crate) fn leaf(bytes: &[u8]) -> Result<Nest<Tensor>> {
    let damaged = |error: &dyn std::fmt::Display| RlError::state("a run", error);
    let length = u32::try_from(bytes.len()).map_err(|error| damaged(&error))?;
    Ok(Nest::Leaf(Tensor::from_slice(bytes, [length]).map_err(|error| damaged(&error))?))
}

/// The newest state, if there is one, and what it is of.
pub(crate) fn get(client: &Client) -> Result<Option<(Identity, Vec<u8>)>> {
    get_from(client, TABLE)
}

/// The same of another table of one item.
pub(crate) fn get_from(client: &Client, table: &str) -> Result<Option<(Identity, Vec<u8>)>> {
    let info = client.server_info()?;
    if info.table(table).is_none_or(|found| found.current_size == 0) {
        return Ok(None);
    }
    let samples = client.with_timeout(PATIENCE).sample(table, 1)?;
    let Some(sample) = samples.first() else { return Ok(None) };
    read(&sample.columns()?).map(Some)
}

/// What an item is of, and its state.
fn read(columns: &[Tensor]) -> Result<(Identity, Vec<u8>)> {
    let [identity, state] = columns else {
        let reason = format_args!("it has {} columns, not 2; it is of another version", columns.len());
        return Err(RlError::state("a run", reason));
    };
    let bytes = |column: &Tensor| column.to_vec::<u8>().map_err(|error| RlError::state("a run", error));
    Ok((Identity::from_bytes(&bytes(identity)?)?, bytes(state)?))
}

/// The folder with a run's checkpoints.
pub(crate) struct Folder {
    path: String,
    store: Store,
    every: u64,
}

impl Folder {
    pub(crate) fn open(options: &Checkpoints) -> Result<Folder> {
        let refused = |expected| RlError::setting(WHAT, options.folder.display(), expected);
        let location = options.folder.to_str().ok_or_else(|| refused("UTF-8"))?;
        if location.contains("://") {
            // As a path it would be a new folder of this machine.
            return Err(refused("the path of a folder: runs are not saved in buckets, nor at other URLs"));
        }
        if options.every == 0 {
            return Err(RlError::setting("the steps from one checkpoint to the next", 0, "at least 1"));
        }
        std::fs::create_dir_all(&options.folder).map_err(|error| RlError::file(&options.folder, error))?;
        let path = options.folder.display().to_string();
        Ok(Folder { path, store: Store::open(location)?.keep(KEPT), every: options.every })
    }

    /// Whether a checkpoint that was read there may be gone on from, before its tables are held against those of the agent.
    ///
    /// # Errors
    /// [`OtherRun`](RlError::OtherRun); it is none of a run.
    pub(crate) fn expect_run(&self, snapshot: &Snapshot, asked: &Identity) -> Result<()> {
        let of_run = snapshot.tables.iter().find(|table| table.config.name == TABLE);
        let Some(item) = of_run.and_then(|table| table.items.first()) else {
            let tables: Vec<&str> = snapshot.tables.iter().map(|table| table.config.name.as_str()).collect();
            let got = format!("{}, whose checkpoint has the tables {}", self.path, tables.join(", "));
            return Err(RlError::setting(WHAT, got, "a new one, or one with the checkpoints of a run"));
        };
        let columns = item.data.trajectory.decode().map_err(|error| RlError::state("a run", error))?;
        read(&columns)?.0.expect(asked, &self.path, ADVICE)
    }

    /// Says that the run goes on from there.
    pub(crate) fn announce(&self, steps: u64) {
        tracing::info!("resumed from {} at step {steps}", self.path);
    }

    /// Steps in the environment from one checkpoint to the next.
    pub(crate) fn every(&self) -> u64 {
        self.every
    }

    /// Whether there is a checkpoint.
    pub(crate) fn has_one(&self) -> Result<bool> {
        Ok(self.store.latest()?.is_some())
    }

    /// The newest checkpoint.
    pub(crate) fn load(&self) -> Result<Option<Snapshot>> {
        let loaded = self.store.load_latest(&LoadOptions::new()).map_err(RlError::Unreadable)?;
        Ok(loaded.map(|loaded| loaded.snapshot))
    }

    /// Writes one; what was written.
    pub(crate) fn save(&self, engine: &Engine) -> Result<Snapshot> {
        let snapshot = engine.snapshot();
        self.store.save(snapshot.clone(), &CheckpointProgress::default())?;
        Ok(snapshot)
    }
}
