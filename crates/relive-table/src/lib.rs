#![forbid(unsafe_code)]
#![doc = include_str!("../docs/crate.md")]

pub mod extension;
pub mod limiter;
pub mod selector;

mod capture;
mod change;
mod checkpoint;
mod common;
mod config;
mod episodes;
mod error;
mod freed;
mod item;
mod items;
mod random;
mod record;
mod snapshot;
mod structure;
mod table;
mod time;

pub use capture::Capture;
pub use change::{Changed, LoggedChange, TableChange};
pub use checkpoint::{
    CheckpointPhase, CheckpointStatus, CheckpointTrigger, FinishedCheckpoint, RunningCheckpoint,
};
pub use common::Common;
pub use config::{ConfigError, MAX_SHARDS, MAX_TABLE_NAME_BYTES, MAX_TABLE_SIZE, TableConfig};
pub use error::{InsertError, PriorityError};
pub use extension::{Context, Effect, Extension, InsertOnFirstSample, Metric, PriorityDiffusion, Statistics};
pub use freed::Freed;
pub use item::{ItemData, ItemView, NewItem, Sampled, SampledRow};
pub use limiter::{
    CountError, ErrorBuffer, Paused, RateLimiter, RateLimiterConfig, RateLimiterError, Shortfall,
};
pub use selector::{MAX_SIDE_BY_SIDE, Pick, Rank, Ranks, Select, Selector, SelectorKind, Slot};
pub use snapshot::{
    CheckpointCounts, CheckpointProgress, SavedCheckpoint, Snapshot, StoredItem, TableCounters, TableSnapshot,
};
pub use structure::{ItemStructure, have_same_columns, shown};
pub use table::{Evicted, InsertOutcome, MAX_ROWS_AT_ONCE, RefusedUpdate, RestoreError, Table, TableInfo};
pub use time::Timestamp;
