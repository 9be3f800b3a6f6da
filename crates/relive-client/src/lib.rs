#![doc = include_str!("../docs/crate.md")]
#![forbid(unsafe_code)]

pub mod blocking;
mod client;

pub use client::Client;
pub use relive_batch::{ColumnMemory, SampleInfo};
pub use relive_connection::{
    ChunkTotals, ClientOptions, Error, MemoryStatus, Result, ServerInfo, ServerStatus, StateId, TableStatus,
    Transport, TransportChoice, Waiter, WaiterOperation, Waits,
};
pub use relive_fleet::{PartialFailure, ServerChange, ServerEvent, ServerStanding, ServerState};
pub use relive_reader::{
    BatchOptions, BatchSampler, ItemInfo, ItemPage, Sample, SampleBatch, SampleCall, Sampler, SamplerOptions,
    UnaryCall, note_fork,
};
pub use relive_table::{
    Changed, CheckpointCounts, CheckpointPhase, CheckpointStatus, CheckpointTrigger, ErrorKind,
    FinishedCheckpoint, LoggedChange, Paused, RunningCheckpoint, SavedCheckpoint, TableChange, TableInfo,
};
pub use relive_tensor::{Codec, CodecSet, ColumnLayout, DType, Nest, Shape, Tensor};
pub use relive_transport::tls;
pub use relive_writer::{
    AppendFault, AppendMismatch, CellState, Column, ColumnHistory, Condition, History, OperandBuilder,
    PatternNode, PriorityFn, ReferenceStep, SourceColumn, StructuredConfig, StructuredWriter,
    StructuredWriterOptions, TrajectoryColumns, TrajectoryWriter, TrajectoryWriterOptions, WeakCell, Windows,
    reference_step,
};
