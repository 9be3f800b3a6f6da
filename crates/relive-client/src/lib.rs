#![doc = include_str!("../docs/crate.md")]
#![forbid(unsafe_code)]

mod backoff;
mod batch;
pub mod blocking;
mod bulk;
mod client;
mod deadline;
mod error;
mod give_up;
mod history;
mod many;
mod pattern;
mod sampler;
mod writer;

pub use batch::{BatchOptions, BatchSampler, SampleBatch};
pub use bulk::note_fork;
pub use client::{
    ChunkTotals, Client, ClientOptions, ItemInfo, ItemPage, MemoryStatus, ServerInfo, ServerStatus, StateId,
    TableStatus, Transport, TransportChoice, Waiter, WaiterOperation, Waits,
};
pub use error::{Error, Result};
pub use history::{CellState, Column, ColumnHistory, History, WeakCell};
pub use many::{PartialFailure, ServerChange, ServerEvent, ServerStanding, ServerState};
pub use pattern::{
    Comparison, Condition, Operand, OperandBuilder, PatternNode, PriorityFn, SourceColumn, StructuredConfig,
    reference_step,
};
pub use relive_batch::{ColumnMemory, SampleInfo};
pub use relive_table::{
    Changed, CheckpointCounts, CheckpointPhase, CheckpointStatus, CheckpointTrigger, ErrorKind,
    FinishedCheckpoint, LoggedChange, Paused, RunningCheckpoint, SavedCheckpoint, TableChange, TableInfo,
};
pub use relive_tensor::{Codec, CodecSet, ColumnLayout, DType, Nest, Shape, Tensor};
pub use relive_transport::tls;
pub use sampler::{Sample, SampleCall, Sampler, SamplerOptions};
pub use writer::{
    AppendFault, AppendMismatch, StructuredWriter, StructuredWriterOptions, TrajectoryColumns,
    TrajectoryWriter, TrajectoryWriterOptions, Windows,
};
