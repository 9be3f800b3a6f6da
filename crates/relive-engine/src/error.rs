//! What can go wrong with an operation on a table, and with making an engine.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use relive_table::{ConfigError, ErrorKind, InsertError, PriorityError, RestoreError};

use crate::limits::{MAX_TABLES, MIN_CHECKPOINT_INTERVAL};

/// Why an operation did not happen. Nothing of it has happened then, unless the variant says otherwise.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// No table has this name.
    #[error("Priority table {name} was not found; this server has: {known}")]
    UnknownTable {
        /// The name asked for.
        name: String,
        /// The tables there are, joined with commas.
        known: String,
    },
    /// The table was dropped while the server goes on.
    #[error("table `{table}` was dropped by an operator")]
    Dropped {
        /// The table.
        table: String,
    },
    /// A table of this name is there already.
    #[error("there is a table `{name}` already; drop it first, or choose another name")]
    TableExists {
        /// The name.
        name: String,
    },
    /// More tables than an engine takes.
    #[error("the server has {limit} tables, which is the limit; drop one first")]
    TooManyTables {
        /// The bound.
        limit: usize,
    },
    /// The only table cannot be dropped.
    #[error("table `{name}` is the only one, and a server needs one; add another one first, or reset it")]
    LastTable {
        /// The table.
        name: String,
    },
    /// A table in shards has its rules for good.
    #[error(
        "table `{table}` has {shards} shards, and rules of such a table are not changed in use; reset it, drop it and add it \
         with other rules, or give it shards = 1"
    )]
    FixedRules {
        /// The table.
        table: String,
        /// How many.
        shards: u32,
    },
    /// Rules of a table that are out of range.
    #[error("{source}")]
    Rules {
        /// Which, and why.
        source: ConfigError,
    },
    /// The table was closed: the server is stopping.
    #[error("table `{table}` is closed: the server is stopping")]
    Closed {
        /// The table.
        table: String,
    },
    /// The deadline passed while the rate limiter forbade the operation.
    #[error("table `{table}`: waited {waited:?} to sample: {reason}")]
    Timeout {
        /// The table.
        table: String,
        /// How long the operation waited.
        waited: Duration,
        /// What it was still waiting for.
        reason: String,
    },
    /// A priority that the table's selectors cannot take.
    #[error("table `{table}`, item {key}: {source}")]
    Priority {
        /// The table.
        table: String,
        /// The item.
        key: u64,
        /// What is wrong with it.
        source: PriorityError,
    },
    /// An item that the table cannot take.
    #[error("{source}")]
    Insert {
        /// What is wrong with it.
        source: InsertError,
    },
    /// Too many operations wait already.
    #[error("table `{table}`: {limit} {what} wait already, which is the limit; try again later")]
    QueueFull {
        /// The table.
        table: String,
        /// `inserts` or `sample requests`.
        what: &'static str,
        /// The bound.
        limit: usize,
    },
    /// The chunks of all tables take more memory than they may, and nothing was freed in time.
    #[error(
        "server memory: chunks take {resident}, max_bytes of the server is {limit}, and too little was freed in \
         {waited:.1?}{cold}; the largest tables are {largest}. Sample or delete items, give these tables a smaller max_size or a \
         max_bytes of their own, or raise the server's max_bytes"
    )]
    Memory {
        /// The bound, with its unit.
        limit: String,
        /// What the chunks take in memory, with its unit.
        resident: String,
        /// How long the writer waited.
        waited: Duration,
        /// What keeps chunks from moving to disk, if they should: an end of a sentence.
        cold: String,
        /// The tables with the most bytes in memory, joined with commas.
        largest: String,
    },
    /// A structure of columns that a table does not take.
    #[error("table `{table}` cannot name its columns after this structure: {reason}")]
    Columns {
        /// The table.
        table: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There is nothing that could write a checkpoint of this kind.
    #[error("{reason}")]
    CheckpointRefused {
        /// What is missing, or not supported.
        reason: String,
    },
    /// A checkpoint could not be written. Earlier ones stay valid.
    #[error("the checkpoint was not written: {source}")]
    Checkpoint {
        /// What went wrong.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// Data that lies on disk cannot be read, or is not what was written.
    #[error("table `{table}`: data of a sampled item cannot be read back from disk: {source}")]
    Cold {
        /// The table.
        table: String,
        /// What went wrong, and where.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// A number of samples that cannot be taken at once.
    #[error("num_samples must be between 1 and {limit}, got {got}")]
    SampleCount {
        /// The value given.
        got: i64,
        /// The bound.
        limit: usize,
    },
}

impl EngineError {
    /// The error of a checkpointer that failed with `error`.
    pub fn checkpoint(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Checkpoint { source: Arc::new(error) }
    }

    /// The kind of failure.
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

/// Why an engine cannot be made.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A table's configuration is out of range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Two tables have one name.
    #[error("two tables are named `{name}`; every table needs a name of its own")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// No table at all.
    #[error("a server needs at least one table")]
    NoTables,
    /// More tables than an engine takes.
    #[error("{got} tables, at most {MAX_TABLES} are supported")]
    TooManyTables {
        /// How many were given.
        got: usize,
    },
    /// No chunk would fit.
    #[error(
        "max_bytes of a server must be at least 1, it is 0; leave it out for a server without this bound"
    )]
    MaxBytes,
    /// A snapshot has a table that the engine was not given.
    #[error("the checkpoint has a table `{name}`, which is not configured; the tables are: {known}")]
    UnknownTable {
        /// Name of the table.
        name: String,
        /// The tables given, joined with commas.
        known: String,
    },
    /// A table's state in a snapshot is one that no table can be in.
    #[error("the checkpoint cannot be restored: {0}")]
    Restore(#[from] RestoreError),
    /// Checkpoints are to be written, but nothing can write them.
    #[error("{option} needs a checkpointer: say where checkpoints are kept")]
    NoCheckpointer {
        /// What asks for them.
        option: &'static str,
    },
    /// Checkpoints are to be written too often.
    #[error("checkpoint_every is {got:?}, at least {MIN_CHECKPOINT_INTERVAL:?} is supported")]
    CheckpointInterval {
        /// The time given.
        got: Duration,
    },
    /// A disk tier without a budget.
    #[error(
        "a disk tier needs max_bytes of the server, the memory that chunks may take before they move to disk"
    )]
    NoBudget,
    /// The system gives no thread.
    #[error("the thread for {purpose} cannot be started: {reason}")]
    Thread {
        /// What it is for: checkpoints by the clock, or moving chunks to disk.
        purpose: &'static str,
        /// What the system says.
        reason: String,
    },
}

impl BuildError {
    pub(crate) fn no_thread(purpose: &'static str, error: &std::io::Error) -> Self {
        Self::Thread { purpose, reason: error.to_string() }
    }
}

/// Characters of a name that an error shows.
const MAX_NAME_TOLD: usize = 100;

pub(crate) fn shortened(name: &str) -> String {
    match name.char_indices().nth(MAX_NAME_TOLD) {
        Some((end, _)) => format!("{}…", name.get(..end).unwrap_or_default()),
        None => name.to_owned(),
    }
}
