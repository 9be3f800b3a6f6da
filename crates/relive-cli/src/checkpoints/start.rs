//! An engine that begins with a checkpoint, and writes more.

use std::sync::Arc;
use std::time::Instant;

use relive_checkpoint::{Error, ErrorKind, Format, LoadOptions, Loaded, Root, Tier};
use relive_engine::{BuildError, Engine, EngineBuilder, EngineError, Restored, Rules};
use relive_table::{Snapshot, TableConfig};

use super::plan::{Plan, Written};
use super::{Checkpoints, ConfigFrom};
use crate::config::Config;
use crate::failure::{Failure, Kind, Result};
use crate::progress::with_bar;
use crate::units::counted;

impl Checkpoints {
    /// The engine, with what the checkpoint holds that is to be loaded.
    /// `tier` is the server's disk tier with its budget.
    pub(crate) fn build(
        &self,
        config: &Config,
        builder: EngineBuilder,
        tier: Option<(Arc<Tier>, u64)>,
    ) -> Result<Engine> {
        let (plan, source) = (self.plan(&config.checkpoints)?, &config.source);
        let root = plan.written.as_ref().map(|written| open(written, tier.as_ref())).transpose()?;
        let started = Instant::now();
        let loaded = plan.load(root.as_ref(), tier)?;
        let builder = match (root, &plan.written) {
            (Some(root), Some(written)) => {
                if loaded.is_none() {
                    tracing::info!(
                        location = root.location(),
                        "no checkpoint to load, beginning with empty tables"
                    );
                }
                write_to(root, written, builder)
            }
            _ => builder,
        };
        let Some(loaded) = loaded else {
            return builder.build().map_err(|error| Failure::usage(format!("{source}: {error}")));
        };
        let Loaded { snapshot, location, losses, .. } = loaded;
        for line in relive_checkpoint::summary_of_losses(&losses) {
            tracing::warn!("lost: {line}");
        }
        let mut builder = builder.loaded_from(location.clone());
        for table in self.added(config, &snapshot) {
            tracing::info!(table = table.name, "not configured, taken from the checkpoint with its rules");
            builder = builder.table(table);
        }
        let misfit = |error: BuildError| {
            let advice = match error {
                BuildError::UnknownTable { .. } => {
                    "; --checkpoint-tables takes such tables as they are there"
                }
                _ => "",
            };
            Failure::usage(format!("{location} does not fit {source}: {error}{advice}"))
        };
        let restored = builder.build_from(snapshot, Rules::from(plan.config_from)).map_err(misfit)?;
        plan.tell(&location, &restored, started);
        Ok(restored.engine)
    }

    /// Tables that only the checkpoint has, if they are to be taken: clients had added them.
    fn added(&self, config: &Config, snapshot: &Snapshot) -> Vec<TableConfig> {
        let is_configured = |name: &str| config.tables.iter().any(|table| table.name == name);
        let there = snapshot.tables.iter().map(|table| table.config.as_ref());
        there.filter(|table| self.checkpoint_tables && !is_configured(&table.name)).cloned().collect()
    }
}

/// The folder or bucket, locked against other servers.
fn open(written: &Written, tier: Option<&(Arc<Tier>, u64)>) -> Result<Root> {
    let keep = usize::try_from(written.keep).unwrap_or(usize::MAX);
    let mut root = Root::new(&written.location).format(written.format.into()).keep(keep);
    if let Some((tier, _)) = tier {
        root = root.tier(Arc::clone(tier));
    }
    root.lock().map_err(|error| Failure::text(kind_of(&error), error))?;
    Ok(root)
}

fn write_to(root: Root, written: &Written, builder: EngineBuilder) -> EngineBuilder {
    let builder = builder
        .checkpointer(move |snapshot, progress| {
            root.save(snapshot, progress).map_err(EngineError::checkpoint)
        })
        .checkpoint_at_close(written.at_shutdown);
    match written.every {
        Some(every) => builder.checkpoint_every(every),
        None => builder,
    }
}

impl Plan {
    fn load(&self, root: Option<&Root>, tier: Option<(Arc<Tier>, u64)>) -> Result<Option<Loaded>> {
        with_bar("loading", |progress| {
            let mut options = LoadOptions::new().salvage(self.salvage).progress(progress);
            if let Some((tier, budget)) = tier {
                options = options.tier(tier, budget);
            }
            match (&self.checkpoint, root) {
                (Some(location), Some(root)) => root.load(location, &options).map(Some),
                (Some(location), None) => relive_checkpoint::load(location, &options).map(Some),
                (None, Some(root)) => root.load_latest(&options),
                (None, None) => Ok(None),
            }
        })
        .map_err(|error| self.unloadable(root, &error))
    }

    fn unloadable(&self, root: Option<&Root>, error: &Error) -> Failure {
        let which = if self.checkpoint.is_some() { "the checkpoint" } else { "the newest checkpoint" };
        let advice =
            if error.kind() == ErrorKind::Damaged { self.advice(root, error) } else { String::new() };
        Failure::text(kind_of(error), format!("cannot load {which}: {error}{advice}"))
    }

    /// What to do about damage.
    fn advice(&self, root: Option<&Root>, damage: &Error) -> String {
        let salvage = match self.salvage {
            true => "; nothing of it can be salvaged",
            false => "; --salvage loads what is whole",
        };
        let Some(root) = root.filter(|_| self.checkpoint.is_none()) else { return salvage.to_owned() };
        let older =
            root.older(damage).advice(root.location(), self.salvage, |older| format!("--checkpoint {older}"));
        format!("{salvage}; {older}")
    }

    fn tell(&self, location: &str, restored: &Restored, started: Instant) {
        let items: u64 = restored.engine.tables().iter().map(|table| table.info().current_size).sum();
        let took = started.elapsed();
        tracing::info!(checkpoint = location, items, ?took, "checkpoint loaded: {}", counted(items, "item"));
        let winner = match self.config_from {
            ConfigFrom::Code => "the configuration counts, as --config-from code says",
            ConfigFrom::Checkpoint => "the checkpoint counts; with --config-from code the configuration does",
        };
        for difference in &restored.differences {
            tracing::warn!("{difference}: {winner}");
        }
        let is_reverb =
            relive_checkpoint::locate(location).is_ok_and(|place| place.format() == Some(Format::Reverb));
        if let Some(written) = self
            .written
            .as_ref()
            .filter(|written| is_reverb && Format::from(written.format) == Format::Relive)
        {
            tracing::info!(
                "new checkpoints are in Relive's format; those of dm-reverb's stay until \
                 `relive checkpoint prune {} --keep N` removes them",
                written.location
            );
        }
    }
}

fn kind_of(error: &Error) -> Kind {
    match error.kind() {
        ErrorKind::Location => Kind::Usage,
        _ => Kind::Runtime,
    }
}
