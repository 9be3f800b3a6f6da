//! The checkpoints of `relive serve`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use relive_checkpoint::reverb::Store;
use relive_engine::{BuildError, Engine, EngineBuilder, EngineError, Restored, Rules};

use crate::failure::{Failure, Kind, Result};

/// Options about checkpoints.
#[derive(Debug, Args)]
pub(crate) struct Checkpoints {
    /// Folder of checkpoints, in dm-reverb's format: the newest is loaded at the start, and a new one is written there
    /// whenever a client asks for it
    #[arg(long, value_name = "DIR")]
    checkpoint_dir: Option<PathBuf>,
    /// Take items and counters from the checkpoint, and the rules of the tables from the configuration
    #[arg(long, requires = "checkpoint_dir")]
    keep_config: bool,
}

impl Checkpoints {
    /// The engine, with what the newest checkpoint holds; `source` is the file of the configuration.
    pub(crate) fn build(&self, builder: EngineBuilder, source: &str) -> Result<Engine> {
        let unusable = |error: BuildError| Failure::usage(format!("{source}: {error}"));
        let Some(root) = &self.checkpoint_dir else { return builder.build().map_err(unusable) };
        let store = Store::new(root);
        let started = Instant::now();
        let newest = store.latest().map_err(|error| Failure::text(Kind::Runtime, error))?;
        let snapshot = newest.as_deref().map(Store::load).transpose().map_err(|error| unloadable(&error))?;
        let builder = builder.checkpointer(move |snapshot, progress| {
            store.checkpoint(&snapshot, progress).map_err(EngineError::checkpoint)
        });
        let (Some(folder), Some(snapshot)) = (newest, snapshot) else {
            tracing::info!(folder = %root.display(), "no checkpoint to load, beginning with empty tables");
            return builder.build().map_err(unusable);
        };
        let restored =
            builder.build_from(snapshot, self.rules()).map_err(|error| misfit(&folder, source, &error))?;
        self.tell(&folder, &restored, started);
        Ok(restored.engine)
    }

    fn rules(&self) -> Rules {
        if self.keep_config { Rules::Given } else { Rules::Stored }
    }

    fn tell(&self, folder: &Path, restored: &Restored, started: Instant) {
        let items: u64 = restored.engine.tables().iter().map(|table| table.info().current_size).sum();
        let took = started.elapsed();
        tracing::info!(folder = %folder.display(), items, ?took, "checkpoint loaded");
        let winner = match self.rules() {
            Rules::Given => "the configuration counts, as --keep-config says",
            Rules::Stored => "the checkpoint counts; --keep-config lets the configuration count",
        };
        for difference in &restored.differences {
            tracing::warn!("{difference}: {winner}");
        }
    }
}

fn unloadable(error: &relive_checkpoint::Error) -> Failure {
    let advice = "to begin without this checkpoint, move its folder away";
    Failure::text(Kind::Runtime, format!("cannot load the newest checkpoint: {error}; {advice}"))
}

fn misfit(folder: &Path, source: &str, error: &BuildError) -> Failure {
    Failure::usage(format!("{} does not fit {source}: {error}", folder.display()))
}
