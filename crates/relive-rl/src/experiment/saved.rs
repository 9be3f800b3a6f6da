//! A run on disk: a checkpoint of its tables, of which one has an item with all that is no table.

use std::time::Duration;

use relive_checkpoint::{LoadOptions, Store};
use relive_client::blocking::Client;
use relive_client::{Nest, Tensor};
use relive_engine::Engine;
use relive_env::State;
use relive_table::{CheckpointProgress, Snapshot, TableConfig};

use super::options::Checkpoints;
use crate::{Result, RlError};

/// The table of saved runs.
pub(crate) const TABLE: &str = "run";

/// Checkpoints that are kept: the newest, and the one before.
const KEPT: usize = 2;

/// The learner, and two who act with their environments.
const MAX_SECTIONS: usize = 5;

/// Reading an item that is there does not wait.
const PATIENCE: Duration = Duration::from_secs(60);

/// The table whose one item is the newest state.
pub(crate) fn table() -> TableConfig {
    TableConfig::new(TABLE).max_size(1)
}

/// How many states a snapshot's table has seen.
pub(super) fn number(snapshot: &Snapshot) -> u64 {
    let table = snapshot.tables.iter().find(|table| table.config.name == TABLE);
    table.map_or(0, |table| u64::try_from(table.counters.inserts).unwrap_or(0))
}

/// Puts a state in the place of the one before.
pub(crate) fn put(client: &Client, state: &[u8]) -> Result<()> {
    let length = u32::try_from(state.len());
    let length = length.map_err(|error| RlError::state("a run", error))?;
    let tensor = Tensor::from_slice(state, [length]);
    let tensor = tensor.map_err(|error| RlError::state("a run", error))?;
    Ok(client.insert(&Nest::dict([("state", Nest::Leaf(tensor))]), &[(TABLE, 1.0)])?)
}

/// The newest state, if there is one.
pub(crate) fn get(client: &Client) -> Result<Option<Vec<u8>>> {
    let info = client.server_info()?;
    let is_there = info.tables.iter().any(|table| table.config.name == TABLE && table.current_size > 0);
    if !is_there {
        return Ok(None);
    }
    let samples = client.sample_with_timeout(TABLE, 1, PATIENCE)?;
    let Some(sample) = samples.first() else { return Ok(None) };
    let columns = sample.columns()?;
    let state = columns.first().map(Tensor::to_vec::<u8>);
    state.transpose().map_err(|error| RlError::state("a run", error))
}

/// States of parts, one after the other.
pub(crate) fn visit_sections(state: &mut State<'_>, sections: &mut Vec<Vec<u8>>) {
    let mut number = sections.len() as u64;
    state.field(&mut number);
    sections.resize_with(usize::try_from(number).unwrap_or(0).min(MAX_SECTIONS), Vec::new);
    sections.iter_mut().for_each(|section| state.bytes(section));
}

/// The folder with a run's checkpoints.
pub(super) struct Folder {
    store: Store,
    every: u64,
}

impl Folder {
    pub(super) fn open(options: &Checkpoints) -> Result<Folder> {
        std::fs::create_dir_all(&options.folder).map_err(|error| RlError::file(&options.folder, error))?;
        let location = options.folder.to_str().ok_or_else(|| {
            RlError::setting("the folder of checkpoints", options.folder.display(), "UTF-8")
        })?;
        if options.every == 0 {
            return Err(RlError::setting("the steps from one checkpoint to the next", 0, "at least 1"));
        }
        Ok(Folder { store: Store::open(location)?.keep(KEPT), every: options.every })
    }

    /// Steps in the environment from one checkpoint to the next.
    pub(super) fn every(&self) -> u64 {
        self.every
    }

    /// The newest checkpoint.
    pub(super) fn load(&self) -> Result<Option<Snapshot>> {
        Ok(self.store.load_latest(&LoadOptions::new())?.map(|loaded| loaded.snapshot))
    }

    /// Writes one; what was written.
    pub(super) fn save(&self, engine: &Engine) -> Result<Snapshot> {
        let snapshot = engine.snapshot();
        self.store.save(snapshot.clone(), &CheckpointProgress::default())?;
        Ok(snapshot)
    }
}
