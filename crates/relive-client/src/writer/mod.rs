//! Writers: steps in, items out.
//!
//! [`Recorder`] is the pure part: columns, the groups of them that share their chunks, and history. A [`Link`](link::Link) takes items to their tables. To a
//! server, [`Outbox`](outbox::Outbox) holds what is still to be confirmed and cuts it into messages; it is the state behind
//! one lock that the writer and the stream share. The [`stream`] task opens streams, again and again if need be, and takes
//! in confirmations. To tables of this process, the writer's own calls insert.

mod append_error;
mod cells;
mod column_state;
mod create;
mod destination;
mod encode;
mod flat_step;
mod group;
mod in_flight;
mod item;
mod known_tables;
mod link;
mod names;
mod options;
mod outbox;
#[cfg(test)]
mod outbox_model;
mod random_keys;
mod recorder;
mod request;
mod slot;
mod stream;
mod structure;
mod structured;
mod tables;
mod thrift;
mod trajectory;
mod tuning;
mod values;
mod windows;

pub use append_error::{AppendFault, AppendMismatch};
pub use item::TrajectoryColumns;
pub use options::{StructuredWriterOptions, TrajectoryWriterOptions};
pub use structured::StructuredWriter;
pub use trajectory::TrajectoryWriter;
pub use windows::Windows;

pub(crate) use column_state::ColumnState;
pub(crate) use recorder::Recorder;
pub(crate) use slot::{ChunkRef, ChunkSlot};
pub(crate) use tables::{SignatureCache, TableSignature};
