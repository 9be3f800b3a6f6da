//! Creates the tables of a server and loads its checkpoint.

use std::sync::Arc;
use std::time::Instant;

use relive_checkpoint::{
    Error as CheckpointError, Format, LoadOptions, Loaded, Location, Root, Tier, locate,
};
use relive_engine::{BuildError, Engine, EngineBuilder, EngineError, Restored, Rules};
use relive_table::{Snapshot, TableConfig};
use relive_tensor::ColdStore;

use crate::checkpoints::Checkpoints;
use crate::{Error, ErrorKind, Result, Words};

/// The folders that a server locks when it starts and releases when it ends.
#[derive(Debug, Default)]
pub(crate) struct Folders {
    pub(crate) root: Option<Arc<Root>>,
    pub(crate) tier: Option<Arc<Tier>>,
}

impl Folders {
    /// Releases the folders for the next server, which may already be waiting for them, although the tables of this
    /// server may exist much longer.
    pub(crate) fn release(&self) {
        if let Some(root) = &self.root {
            root.release();
        }
        if let Some(tier) = &self.tier {
            tier.close();
        }
    }
}

/// A disk tier, and the bound on the memory of chunks.
pub(crate) type Spill = (Arc<Tier>, u64);

/// Everything that is needed to start a server.
pub(crate) struct Begin {
    pub(crate) engine: EngineBuilder,
    /// The names of the tables that have been added to `engine`.
    pub(crate) names: Vec<String>,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) spill: Option<Spill>,
    pub(crate) words: Words,
}

impl Begin {
    /// Loads the checkpoint, if one exists. Returns when the checkpoint has been read.
    pub(crate) fn run(mut self) -> Result<(Engine, Folders)> {
        if let Some((tier, _)) = &self.spill {
            self.engine = self.engine.cold_store(Arc::clone(tier) as Arc<dyn ColdStore>);
        }
        let (root, load) = self.root();
        let started = Instant::now();
        let loaded = self.load(root.as_ref(), load.as_deref())?;
        let root = root.map(Arc::new);
        let builder = std::mem::take(&mut self.engine);
        let builder = self.written(builder, root.as_ref());
        let engine = match loaded {
            Some(loaded) => self.restore(builder, loaded, started)?,
            None => builder.build()?,
        };
        warn_of_full_memory(&engine);
        Ok((engine, Folders { root, tier: self.spill.map(|(tier, _)| tier) }))
    }

    /// Returns the server's folder or bucket, and the checkpoint to load instead of its newest one, if any.
    fn root(&self) -> (Option<Root>, Option<String>) {
        let settings = &self.checkpoints;
        let Some(location) = &settings.location else { return (None, settings.load.clone()) };
        let (location, load) = match locate(location) {
            Ok(Location::Checkpoint { root, .. }) => (root, Some(location.clone())),
            // If the folder is missing, it is created later. If that is impossible, the first write reports this.
            _ => (location.clone(), None),
        };
        let root = settings.keep.into_iter().fold(Root::new(location).format(settings.format), Root::keep);
        let root = settings.fallback.iter().fold(root, Root::fallback);
        let root = self.spill.iter().fold(root, |root, (tier, _)| root.tier(Arc::clone(tier)));
        (Some(root), settings.load.clone().or(load))
    }

    fn load(&self, root: Option<&Root>, load: Option<&str>) -> Result<Option<Loaded>> {
        let settings = &self.checkpoints;
        if settings.is_new {
            return Ok(None);
        }
        if let Some(root) = root.filter(|_| !settings.is_shared) {
            root.lock()?;
        }
        let mut options = LoadOptions::new().salvage(settings.salvage);
        options = settings.progress.iter().cloned().fold(options, LoadOptions::progress);
        options =
            self.spill.iter().fold(options, |options, (tier, budget)| options.tier(tier.clone(), *budget));
        let loaded = match (load, root) {
            (Some(place), Some(root)) => root.load(place, &options).map(Some),
            (Some(place), None) => relive_checkpoint::load(place, &options).map(Some),
            (None, Some(root)) => root.load_latest(&options),
            (None, None) => return Ok(None),
        };
        if let (Ok(None), Some(root)) = (&loaded, root) {
            let location = root.location();
            tracing::info!(target: "relive::server", location, "no checkpoint to load, starting with empty tables");
        }
        loaded.map_err(|error| self.unloadable(root, load.is_some(), error))
    }

    fn unloadable(&self, root: Option<&Root>, is_chosen: bool, error: CheckpointError) -> Error {
        let which = if is_chosen { "the checkpoint" } else { "the newest checkpoint" };
        let advice = match error.kind() {
            relive_checkpoint::ErrorKind::Damaged => self.advice(root.filter(|_| !is_chosen), &error),
            _ => String::new(),
        };
        Error::from(error).with_context(|text| format!("cannot load {which}: {text}{advice}"))
    }

    /// Returns advice on how to handle a damaged checkpoint.
    fn advice(&self, root: Option<&Root>, damage: &CheckpointError) -> String {
        let is_salvaging = self.checkpoints.salvage;
        let salvage = match is_salvaging {
            true => "; no part of it can be salvaged".to_owned(),
            false => format!("; {} loads the intact part", self.words.salvage),
        };
        let Some(root) = root else { return salvage };
        let older = root.older(damage).advice(root.location(), is_salvaging, self.words.load);
        format!("{salvage}; {older}")
    }

    /// Configures where and when checkpoints are written.
    fn written(&self, builder: EngineBuilder, root: Option<&Arc<Root>>) -> EngineBuilder {
        let settings = &self.checkpoints;
        let builder = match (&settings.save, root) {
            (Some(save), _) => {
                let save = save.clone();
                builder.checkpointer(move |snapshot, progress| save.save(snapshot, progress))
            }
            (None, Some(root)) => {
                let root = Arc::clone(root);
                builder.checkpointer(move |snapshot, progress| {
                    root.save(snapshot, progress).map_err(EngineError::checkpoint)
                })
            }
            (None, None) => return builder,
        };
        let builder = builder.checkpoint_at_close(!settings.not_at_shutdown);
        settings.every.into_iter().fold(builder, EngineBuilder::checkpoint_every)
    }

    fn restore(&self, builder: EngineBuilder, loaded: Loaded, started: Instant) -> Result<Engine> {
        let Loaded { snapshot, location, losses, .. } = loaded;
        for line in relive_checkpoint::summary_of_losses(&losses) {
            tracing::warn!(target: "relive::server", "lost: {line}");
        }
        let mut builder = builder.loaded_from(&*location);
        for table in self.other_tables(&snapshot) {
            tracing::info!(
                target: "relive::server",
                table = table.name,
                "not configured: restored from the checkpoint with its rules"
            );
            // Rules under which nothing is sampled were accepted when the table was added. Other tables keep the check
            // of later changes.
            let is_never_sampled = table.validate().is_err();
            builder = builder.table(table.allow_never_sampled(is_never_sampled));
        }
        let restored = builder
            .build_from(snapshot, self.checkpoints.rules)
            .map_err(|error| self.misfit(&location, error))?;
        self.log_restored(&location, &restored, started);
        Ok(restored.engine)
    }

    /// Returns the tables that exist only in the checkpoint because clients added them, if they should be restored.
    fn other_tables(&self, snapshot: &Snapshot) -> Vec<TableConfig> {
        let there = snapshot.tables.iter().map(|table| table.config.as_ref());
        let is_taken = self.checkpoints.other_tables;
        there.filter(|table| is_taken && !self.names.contains(&table.name)).cloned().collect()
    }

    fn misfit(&self, location: &str, error: BuildError) -> Error {
        let advice = match (&error, self.words.other_tables) {
            (BuildError::UnknownTable { .. }, Some(setting)) => {
                format!("; {setting} restores such tables with their rules from the checkpoint")
            }
            _ => String::new(),
        };
        Error::from(error)
            .with_context(|text| format!("{location} does not match the configured tables: {text}{advice}"))
    }

    fn log_restored(&self, location: &str, restored: &Restored, started: Instant) {
        let items: u64 = restored.engine.tables().iter().map(|table| table.info().current_size).sum();
        let (took, what) = (started.elapsed(), if items == 1 { "item" } else { "items" });
        tracing::info!(target: "relive::server", checkpoint = location, ?took, "checkpoint loaded: {items} {what}");
        let rules = self.words.given_rules;
        let winner = match self.checkpoints.rules {
            Rules::Given => format!("using the configuration, because of {rules}"),
            Rules::Stored => format!("using the checkpoint; {rules} uses the configuration"),
        };
        for difference in &restored.differences {
            tracing::warn!(target: "relive::server", "{difference}: {winner}");
        }
        let is_reverb = locate(location).is_ok_and(|place| place.format() == Some(Format::Reverb));
        if let Some(root) = &self.checkpoints.location
            && is_reverb
            && self.checkpoints.format == Format::Relive
        {
            tracing::info!(
                target: "relive::server",
                "new checkpoints use Relive's format; those in dm-reverb's format remain until `relive \
                 checkpoint prune {root} --keep N` removes them",
            );
        }
    }
}

/// Warns that the checkpoint does not fit into the bound on memory. The checkpoint is loaded anyway.
fn warn_of_full_memory(engine: &Engine) {
    let memory = engine.memory();
    let resident = memory.chunks.resident_bytes();
    if let Some(limit) = memory.max_bytes.filter(|limit| resident > *limit) {
        tracing::warn!(
            target: "relive::server",
            "the checkpoint's chunks have {resident} bytes, but max_bytes is {limit}: inserts wait until items are removed",
        );
    }
}

/// Opens the disk tier in `folder`.
pub(crate) fn open_tier(folder: &std::path::Path, max_bytes: Option<u64>, words: &Words) -> Result<Spill> {
    let Some(budget) = max_bytes else {
        let (spill, max_bytes) = (words.spill, words.max_bytes);
        let text = format!("{spill} requires {max_bytes}, the memory for chunks before they move to disk");
        return Err(Error::new(ErrorKind::Memory, text));
    };
    let tier = Tier::open(folder)?;
    tracing::info!(target: "relive::server", folder = %tier.folder().display(), "chunks beyond {budget} bytes move to disk");
    Ok((Arc::new(tier), budget))
}
