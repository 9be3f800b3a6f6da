#![doc = include_str!("../docs/lib.md")]

pub mod cuda;
pub mod select;

mod bytes;
mod checkpoint;
mod collect;
mod error;
mod kill;
mod memory;
mod metrics;
mod peers;
mod schema;
mod serve;
mod store;
mod writers;

pub use checkpoint::{Checkpoint, Saved};
pub use collect::{
    Batch, BatchColumn, BatchPlan, Cast, CollectOptions, Collector, ColumnPlan, Convert, MAX_WINDOWS,
    OUTPUT_ALIGNMENT, Pad, RowPlan, Span, Window, span,
};
pub use error::{Error, ErrorKind, Result};
pub use memory::Tier;
pub use metrics::{AGE_CLASSES, Eviction, MetricsSnapshot};
pub use peers::{Network, NetworkOptions, Peer};
pub use relive_transport::tls;
pub use schema::{Column, MAX_COLUMNS, MAX_NAME_BYTES, MAX_RANK, MAX_STEPS, Schema};
pub use serve::RowServer;
pub use store::{
    Change, Changed, Choose, Inserted, MAX_READERS, MAX_WRITERS, Pinned, Reader, Removal, Reweigh, Shard,
    State, Status, Store, StoreOptions, Trajectory, Writing,
};
pub use writers::{Request, Scan, Writer};
