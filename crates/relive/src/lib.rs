#![doc = include_str!("../docs/crate.md")]
#![forbid(unsafe_code)]

pub use relive_client::{
    AppendFault, AppendMismatch, BatchOptions, BatchSampler, CellState, ChunkTotals, Client, ClientOptions,
    Column, ColumnHistory, ColumnLayout, ColumnMemory, Condition, Error, ErrorKind, History, ItemInfo,
    ItemPage, MemoryStatus, OperandBuilder, PartialFailure, PatternNode, PriorityFn, ReferenceStep, Result,
    Sample, SampleBatch, SampleCall, SampleInfo, Sampler, SamplerOptions, ServerChange, ServerEvent,
    ServerInfo, ServerStanding, ServerState, ServerStatus, SourceColumn, StateId, StructuredConfig,
    StructuredWriter, StructuredWriterOptions, TableStatus, TrajectoryColumns, TrajectoryWriter,
    TrajectoryWriterOptions, Transport, TransportChoice, UnaryCall, Waiter, WaiterOperation, Waits, WeakCell,
    Windows, blocking, note_fork, reference_step,
};
pub use relive_engine::{
    BuildError, Difference, Engine, EngineBuilder, EngineError, PendingCheckpoint, Restored, TableHandle,
};
pub use relive_host::{
    Address, Bound, Checkpoints, Endpoint, Error as ServerError, ErrorKind as ServerErrorKind, Format, Rules,
    Server, ServerBuilder,
};
pub use relive_server::{Monitor, ServerOptions, access, tls};
pub use relive_table::{
    Changed, CheckpointCounts, CheckpointPhase, CheckpointProgress, CheckpointStatus, CheckpointTrigger,
    ConfigError, ErrorBuffer, Extension, FinishedCheckpoint, InsertError, ItemData, ItemView, LoggedChange,
    MAX_TABLE_SIZE, Paused, PriorityError, RateLimiterConfig, RateLimiterError, RunningCheckpoint,
    SavedCheckpoint, SelectorKind, Snapshot, TableChange, TableConfig, TableInfo, Timestamp, extension,
};
pub use relive_tensor::{
    Codec, CodecSet, DType, Element, Nest, NestError, Path, PathPart, Shape, Signature, Tensor, TensorError,
    TensorSpec, Trajectory,
};

#[cfg(feature = "rl")]
pub use {
    relive_agents as agents, relive_cluster as cluster, relive_env as env, relive_flow as flow,
    relive_nn as nn, relive_rl as rl,
};

#[cfg(feature = "gpu")]
pub use relive_gpu as gpu;
