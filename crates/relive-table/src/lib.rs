#![forbid(unsafe_code)]
#![doc = include_str!("../docs/crate.md")]

pub mod extension;
pub mod limiter;
pub mod selector;

mod change;
mod checkpoint;
mod config;
mod error;
mod error_kind;
mod item;
mod random;
mod snapshot;
mod storage;
mod structure;
mod table;
mod time;

pub use change::{Changed, LoggedChange, TableChange};
pub use checkpoint::{
    CheckpointPhase, CheckpointStatus, CheckpointTrigger, FinishedCheckpoint, RunningCheckpoint,
};
pub use config::{ConfigError, MAX_SHARDS, MAX_TABLE_NAME_BYTES, MAX_TABLE_SIZE, TableConfig};
pub use error::InsertError;
pub use error_kind::ErrorKind;
pub use extension::{Context, Effect, Extension, InsertOnFirstSample, Metric, PriorityDiffusion, Statistics};
pub use item::{ItemData, ItemView, NewItem, Sampled, SampledRow};
pub use limiter::{
    CountError, ErrorBuffer, Paused, RateLimiter, RateLimiterConfig, RateLimiterError, Shortfall,
};
pub use selector::{
    MAX_SIDE_BY_SIDE, Pick, PriorityError, Rank, Ranks, Select, Selector, SelectorKind, Slot,
};
pub use snapshot::{
    CheckpointCounts, CheckpointProgress, SavedCheckpoint, Snapshot, StoredItem, TableCounters, TableSnapshot,
};
pub use storage::{Capture, Common, Freed};
pub use structure::{ItemStructure, have_same_columns, shown};
pub use table::{Evicted, InsertOutcome, MAX_ROWS_AT_ONCE, RefusedUpdate, RestoreError, Table, TableInfo};
pub use time::Timestamp;
