//! The checkpoint settings of a server.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use relive_checkpoint::Format;
use relive_engine::{BuildError, EngineError, Rules, limits::MIN_CHECKPOINT_INTERVAL};
use relive_table::{CheckpointProgress, SavedCheckpoint, Snapshot};

/// Writes a snapshot of all tables, and returns its location.
#[derive(Clone)]
pub(crate) struct Save(Arc<Saving>);

type Saving = dyn Fn(Snapshot, &CheckpointProgress) -> Result<SavedCheckpoint, EngineError> + Send + Sync;

impl Save {
    pub(crate) fn save(
        &self,
        snapshot: Snapshot,
        progress: &CheckpointProgress,
    ) -> Result<SavedCheckpoint, EngineError> {
        (self.0)(snapshot, progress)
    }
}

impl fmt::Debug for Save {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Save")
    }
}

/// Where a server's checkpoints are stored, when they are written, and which one the server loads when it starts. By
/// default, no checkpoint is written or loaded.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path().to_str().unwrap();
/// use std::time::Duration;
///
/// use relive_host::{Checkpoints, ServerBuilder};
/// use relive_table::TableConfig;
///
/// # #[tokio::main]
/// # async fn run(folder: &str) -> relive_host::Result<()> {
/// let begin = || {
///     let checkpoints = Checkpoints::at(folder).keep(2).every(Duration::from_secs(600));
///     ServerBuilder::default().table(TableConfig::queue("steps", 100)).checkpoints(checkpoints).bind(":0")
/// };
/// begin().await?.stop().await?; // writes the last checkpoint
/// let server = begin().await?;
/// let loaded = server.engine().checkpoint_status().loaded.expect("the newest is loaded");
/// assert!(loaded.ends_with("checkpoint-0000000001.relive"));
/// server.stop().await
/// # }
/// # run(folder).unwrap();
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Checkpoints {
    pub(crate) location: Option<String>,
    pub(crate) save: Option<Save>,
    pub(crate) load: Option<String>,
    pub(crate) fallback: Option<String>,
    pub(crate) format: Format,
    pub(crate) keep: Option<usize>,
    pub(crate) every: Option<Duration>,
    pub(crate) not_at_shutdown: bool,
    pub(crate) rules: Rules,
    pub(crate) salvage: bool,
    pub(crate) other_tables: bool,
    pub(crate) progress: Option<Arc<CheckpointProgress>>,
    /// A new folder is not created before the first write.
    pub(crate) is_new: bool,
    pub(crate) is_shared: bool,
}

impl Checkpoints {
    /// Uses the folder or bucket (`s3://…`, `gs://…`, `az://…`) at `location`: the server loads the newest checkpoint
    /// at startup and writes new ones there. If `location` is a single checkpoint, the server loads that one.
    pub fn at(location: impl Into<String>) -> Self {
        Self { location: Some(location.into()), ..Self::default() }
    }

    /// Uses a temporary folder, created with the first checkpoint. The server loads no checkpoint and writes none at
    /// shutdown.
    #[must_use]
    pub fn temporary() -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let name = format!("relive-checkpoints-{}-{}", std::process::id(), now.as_nanos());
        let folder = std::env::temp_dir().join(name).to_string_lossy().into_owned();
        Self { is_new: true, not_at_shutdown: true, ..Self::at(folder) }
    }

    /// Writes checkpoints with `save`; see [`EngineBuilder::checkpointer`](relive_engine::EngineBuilder::checkpointer).
    #[must_use]
    pub fn saved_by(
        mut self,
        save: impl Fn(Snapshot, &CheckpointProgress) -> Result<SavedCheckpoint, EngineError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.save = Some(Save(Arc::new(save)));
        self
    }

    /// Loads this checkpoint, or the newest one in this folder or bucket, instead of the server's newest one.
    #[must_use]
    pub fn load(mut self, place: impl Into<String>) -> Self {
        self.load = Some(place.into());
        self
    }

    /// Sets a checkpoint, or a folder of checkpoints, that is loaded if the server does not have any checkpoint. A
    /// location that does not exist or has no complete checkpoint is ignored, with a warning. A damaged checkpoint, or
    /// a location that cannot be used, is an error.
    #[must_use]
    pub fn fallback(mut self, place: impl Into<String>) -> Self {
        self.fallback = Some(place.into());
        self
    }

    /// Sets the format of new checkpoints; a server loads both formats. Default: Relive's.
    #[must_use]
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// Sets how many checkpoints are kept; the newest is always kept. Default: 3.
    #[must_use]
    pub fn keep(mut self, checkpoints: usize) -> Self {
        self.keep = Some(checkpoints);
        self
    }

    /// Writes a checkpoint every `interval`, which is at least one second. Default: checkpoints are written only at a
    /// client's request.
    #[must_use]
    pub fn every(mut self, interval: Duration) -> Self {
        self.every = Some(interval);
        self
    }

    /// Sets whether the server writes a checkpoint when it stops. The server writes it after it has closed its tables,
    /// so the checkpoint contains every confirmed item. Default: true.
    #[must_use]
    pub fn at_shutdown(mut self, yes: bool) -> Self {
        self.not_at_shutdown = !yes;
        self
    }

    /// Sets which rules a loaded table uses. Default: the rules in the checkpoint. Differences are logged in either
    /// case.
    #[must_use]
    pub fn rules(mut self, rules: Rules) -> Self {
        self.rules = rules;
        self
    }

    /// Sets whether to load the intact part of a damaged checkpoint and log the damage instead of refusing the
    /// checkpoint.
    #[must_use]
    pub fn salvage(mut self, yes: bool) -> Self {
        self.salvage = yes;
        self
    }

    /// Sets whether to add the tables that exist only in the checkpoint, with their stored rules, instead of refusing
    /// the checkpoint.
    #[must_use]
    pub fn other_tables(mut self, yes: bool) -> Self {
        self.other_tables = yes;
        self
    }

    /// Receives the progress of loading the checkpoint.
    #[must_use]
    pub fn progress(mut self, progress: Arc<CheckpointProgress>) -> Self {
        self.progress = Some(progress);
        self
    }

    /// Allows other servers to load from the folder and write to it until this server first writes. By default, this
    /// server locks the folder at startup.
    #[must_use]
    pub fn shared_until_written(mut self, yes: bool) -> Self {
        self.is_shared = yes;
        self
    }

    /// # Errors
    /// The interval is too short, or checkpoints are requested without a place for them.
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        match self.every {
            Some(_) if self.location.is_none() && self.save.is_none() => {
                Err(BuildError::NoCheckpointer { option: "every" })
            }
            Some(got) if got < MIN_CHECKPOINT_INTERVAL => Err(BuildError::CheckpointInterval { got }),
            _ => Ok(()),
        }
    }
}
