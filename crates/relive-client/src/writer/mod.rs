//! Writers: steps in, items out.
//!
//! [`Recorder`] is the pure part: columns, chunks and history. [`Outbox`](outbox::Outbox) holds what is still to be
//! confirmed and cuts it into messages; it is the state behind one lock that the writer and the stream share. The
//! [`stream`] task opens streams, again and again if need be, and takes in confirmations.

mod column_state;
mod encode;
mod flat_step;
mod item;
mod link;
mod options;
mod outbox;
#[cfg(test)]
mod outbox_model;
mod recorder;
mod slot;
mod stream;
mod structure;
mod structured;
mod tables;
mod trajectory;
mod tuning;
mod values;

pub use item::TrajectoryColumns;
pub use options::TrajectoryWriterOptions;
pub use structured::StructuredWriter;
pub use trajectory::TrajectoryWriter;

pub(crate) use column_state::ColumnState;
pub(crate) use recorder::Recorder;
pub(crate) use slot::ChunkRef;
pub(crate) use tables::{SignatureCache, TableSignature};
