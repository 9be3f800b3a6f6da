//! Errors from operations on tables, and from building an engine.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use relive_table::{ConfigError, ErrorKind, InsertError, PriorityError, RestoreError};

use crate::limits::{MAX_TABLES, MIN_CHECKPOINT_INTERVAL};

/// The reason why an operation failed. The operation had no effect, unless the variant states otherwise.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// No table has this name.
    #[error("Priority table {name} was not found; this server has: {known}")]
    UnknownTable {
        /// The requested name.
        name: String,
        /// The existing tables, joined with commas.
        known: String,
    },
    /// The table was dropped while the server was running.
    #[error("table `{table}` was dropped by an operator")]
    Dropped {
        /// The table.
        table: String,
    },
    /// A table with this name already exists.
    #[error("table `{name}` already exists; drop it first, or choose another name")]
    TableExists {
        /// The name.
        name: String,
    },
    /// The engine has the maximum number of tables.
    #[error("the server has {limit} tables, the maximum; drop one first")]
    TooManyTables {
        /// The bound.
        limit: usize,
    },
    /// The last table cannot be dropped.
    #[error(
        "table `{name}` is the only table, and a server must have one; add another table first, or reset this one"
    )]
    LastTable {
        /// The table.
        name: String,
    },
    /// The rules of a sharded table cannot be changed.
    #[error(
        "table `{table}` has {shards} shards, and the rules of such a table cannot change while it is in use; \
         drop it and add it with other rules, or with shards = 1"
    )]
    FixedRules {
        /// The table.
        table: String,
        /// The number of shards.
        shards: u32,
    },
    /// Rules of a table are out of range.
    #[error("{source}")]
    Rules {
        /// Which rules, and why.
        source: ConfigError,
    },
    /// The table was closed: the server is stopping.
    #[error("table `{table}` is closed: the server is stopping")]
    Closed {
        /// The table.
        table: String,
    },
    /// The deadline passed while the rate limiter blocked the operation.
    #[error("table `{table}`: waited {waited:?} to sample: {reason}")]
    Timeout {
        /// The table.
        table: String,
        /// How long the operation waited.
        waited: Duration,
        /// The condition that it was waiting for.
        reason: String,
    },
    /// The table's selectors do not accept a priority.
    #[error("table `{table}`, item {key}: {source}")]
    Priority {
        /// The table.
        table: String,
        /// The item.
        key: u64,
        /// The reason why the priority is refused.
        source: PriorityError,
    },
    /// The table does not accept an item.
    #[error("{source}")]
    Insert {
        /// The reason why the item is refused.
        source: InsertError,
    },
    /// Too many operations are waiting.
    #[error("table `{table}`: {limit} {what} are already waiting, the maximum; try again later")]
    QueueFull {
        /// The table.
        table: String,
        /// `inserts` or `sample requests`.
        what: &'static str,
        /// The bound.
        limit: usize,
    },
    /// The chunks of all tables exceed the memory bound, and no memory was freed in time.
    #[error(
        "server memory: chunks take {resident}, max_bytes of the server is {limit}, and too little memory was \
         freed within {waited:.1?}{cold}; the largest tables are {largest}. Sample or delete items, give these \
         tables a smaller max_size or their own max_bytes, or raise the server's max_bytes"
    )]
    Memory {
        /// The bound, with its unit.
        limit: String,
        /// The memory that the chunks use, with its unit.
        resident: String,
        /// How long the writer waited.
        waited: Duration,
        /// The end of the message, which states why chunks cannot move to disk, if there is a disk tier.
        cold: String,
        /// The tables with the most bytes in memory, joined with commas.
        largest: String,
    },
    /// The table does not accept a structure of columns.
    #[error("table `{table}` cannot name its columns after this structure: {reason}")]
    Columns {
        /// The table.
        table: String,
        /// The reason why it is refused.
        reason: String,
    },
    /// No checkpointer can write a checkpoint of this kind.
    #[error("{reason}")]
    CheckpointRefused {
        /// The feature that is missing or unsupported.
        reason: String,
    },
    /// A checkpoint could not be written. Earlier ones stay valid.
    #[error("the checkpoint was not written: {source}")]
    Checkpoint {
        /// The error of the checkpointer.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// Data on disk cannot be read, or differs from the data that was written.
    #[error("table `{table}`: cannot read the data of a sampled item back from disk: {source}")]
    Cold {
        /// The table.
        table: String,
        /// The disk error, with its location.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// The number of requested samples is out of range.
    #[error("num_samples must be between 1 and {limit}, got {got}")]
    SampleCount {
        /// The value given.
        got: i64,
        /// The bound.
        limit: usize,
    },
}

impl EngineError {
    /// Returns the error for a checkpointer that failed with `error`.
    pub fn checkpoint(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Checkpoint { source: Arc::new(error) }
    }

    /// Returns the kind of failure.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::UnknownTable { .. } | Self::Dropped { .. } => ErrorKind::NotFound,
            Self::Closed { .. } => ErrorKind::Cancelled,
            Self::Timeout { .. } => ErrorKind::Timeout,
            Self::Priority { .. }
            | Self::Insert { .. }
            | Self::SampleCount { .. }
            | Self::Columns { .. }
            | Self::Rules { .. }
            | Self::FixedRules { .. }
            | Self::TableExists { .. }
            | Self::LastTable { .. }
            | Self::CheckpointRefused { .. } => ErrorKind::InvalidArgument,
            Self::Checkpoint { .. } => ErrorKind::Internal,
            Self::QueueFull { .. } | Self::TooManyTables { .. } | Self::Memory { .. } => {
                ErrorKind::ResourceExhausted
            }
            Self::Cold { .. } => ErrorKind::DataLoss,
        }
    }
}

/// The reason why an engine cannot be built.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A table's configuration is out of range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Two tables have the same name.
    #[error("two tables are named `{name}`; table names must be unique")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// The engine has no table.
    #[error("a server must have at least one table")]
    NoTables,
    /// The engine has too many tables.
    #[error("a server must have at most {MAX_TABLES} tables, got {got}")]
    TooManyTables {
        /// The number of tables.
        got: usize,
    },
    /// The bound leaves no room for any chunk.
    #[error("max_bytes of a server must be at least 1, got 0; omit it for a server without this bound")]
    MaxBytes,
    /// The snapshot has a table that the engine does not have.
    #[error(
        "the checkpoint has a table `{name}`, which is not configured; the configured tables are: {known}"
    )]
    UnknownTable {
        /// The table's name.
        name: String,
        /// The engine's tables, joined with commas.
        known: String,
    },
    /// A snapshot contains an impossible state of a table.
    #[error("the checkpoint cannot be restored: {0}")]
    Restore(#[from] RestoreError),
    /// Checkpoints are requested, but the engine has no checkpointer.
    #[error("{option} requires a checkpointer; configure where checkpoints are kept")]
    NoCheckpointer {
        /// The option that requests them.
        option: &'static str,
    },
    /// The interval of checkpoints is too short.
    #[error("checkpoint_every must be at least {MIN_CHECKPOINT_INTERVAL:?}, got {got:?}")]
    CheckpointInterval {
        /// The interval.
        got: Duration,
    },
    /// A disk tier is configured without a budget.
    #[error("a disk tier requires max_bytes of the server, the memory for chunks before they move to disk")]
    NoBudget,
    /// The system cannot start a thread.
    #[error("cannot start the thread for {purpose}: {reason}")]
    Thread {
        /// The thread's purpose: scheduled checkpoints or moving chunks to disk.
        purpose: &'static str,
        /// The system's error.
        reason: String,
    },
}

impl BuildError {
    pub(crate) fn no_thread(purpose: &'static str, error: &std::io::Error) -> Self {
        Self::Thread { purpose, reason: error.to_string() }
    }
}

/// The number of characters of a name that an error displays.
const MAX_NAME_CHARS_IN_ERROR: usize = 100;

pub(crate) fn shortened(name: &str) -> String {
    match name.char_indices().nth(MAX_NAME_CHARS_IN_ERROR) {
        Some((end, _)) => format!("{}…", name.get(..end).unwrap_or_default()),
        None => name.to_owned(),
    }
}
