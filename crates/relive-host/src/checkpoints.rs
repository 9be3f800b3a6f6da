//! What a server does about checkpoints.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use relive_checkpoint::Format;
use relive_engine::{BuildError, EngineError, Rules, limits::MIN_CHECKPOINT_INTERVAL};
use relive_table::{CheckpointProgress, SavedCheckpoint, Snapshot};

/// Writes a snapshot of all tables, and says where.
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

/// Where a server's checkpoints are, when they are written, and with which one the server begins. The default: none are
/// written, and none is loaded.
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
    /// The folder is not there before something is written to it.
    pub(crate) is_new: bool,
    pub(crate) is_shared: bool,
}

impl Checkpoints {
    /// In the folder or bucket (`s3://…`, `gs://…`, `az://…`) at `location`: the newest is loaded at the start, and
    /// new ones are written there. If it is the place of one checkpoint, that one is loaded.
    pub fn at(location: impl Into<String>) -> Self {
        Self { location: Some(location.into()), ..Self::default() }
    }

    /// In a folder for temporary files, which is made with the first checkpoint; none is loaded, and none is written at
    /// shutdown.
    #[must_use]
    pub fn temporary() -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let name = format!("relive-checkpoints-{}-{}", std::process::id(), now.as_nanos());
        let folder = std::env::temp_dir().join(name).to_string_lossy().into_owned();
        Self { is_new: true, not_at_shutdown: true, ..Self::at(folder) }
    }

    /// Has `save` write the checkpoints; see
    /// [`EngineBuilder::checkpointer`](relive_engine::EngineBuilder::checkpointer).
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

    /// Loads this checkpoint, or the newest of this folder or bucket, instead of the newest of the server's own.
    #[must_use]
    pub fn load(mut self, place: impl Into<String>) -> Self {
        self.load = Some(place.into());
        self
    }

    /// A checkpoint, or a folder of them, to load while the server's own has none. If there is nothing whole, that
    /// counts as none.
    #[must_use]
    pub fn fallback(mut self, place: impl Into<String>) -> Self {
        self.fallback = Some(place.into());
        self
    }

    /// The format in which checkpoints are written; either is loaded. Default: Relive's.
    #[must_use]
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// How many are kept, at least the newest. Default: 3.
    #[must_use]
    pub fn keep(mut self, checkpoints: usize) -> Self {
        self.keep = Some(checkpoints);
        self
    }

    /// Writes one every so often, at least a second apart. Default: only when a client asks.
    #[must_use]
    pub fn every(mut self, interval: Duration) -> Self {
        self.every = Some(interval);
        self
    }

    /// Whether one is written when the server stops, after its tables are closed, so that it has every item that was
    /// confirmed. Default: yes.
    #[must_use]
    pub fn at_shutdown(mut self, yes: bool) -> Self {
        self.not_at_shutdown = !yes;
        self
    }

    /// Whose rules the loaded tables have. Default: the checkpoint's. Each difference is logged either way.
    #[must_use]
    pub fn rules(mut self, rules: Rules) -> Self {
        self.rules = rules;
        self
    }

    /// Whether to load what is whole of a damaged checkpoint, and to log what is not, instead of refusing it.
    #[must_use]
    pub fn salvage(mut self, yes: bool) -> Self {
        self.salvage = yes;
        self
    }

    /// Whether to take tables that the checkpoint has and the server was not given, with the rules that they have
    /// there, instead of refusing the checkpoint.
    #[must_use]
    pub fn other_tables(mut self, yes: bool) -> Self {
        self.other_tables = yes;
        self
    }

    /// Counts up while the checkpoint is loaded.
    #[must_use]
    pub fn progress(mut self, progress: Arc<CheckpointProgress>) -> Self {
        self.progress = Some(progress);
        self
    }

    /// Lets other servers load from the folder, and write to it, until this one first writes. Otherwise the folder is
    /// this server's from its start.
    #[must_use]
    pub fn shared_until_written(mut self, yes: bool) -> Self {
        self.is_shared = yes;
        self
    }

    /// # Errors
    /// They are to be written too often.
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        match self.every {
            Some(got) if got < MIN_CHECKPOINT_INTERVAL => Err(BuildError::CheckpointInterval { got }),
            _ => Ok(()),
        }
    }
}
