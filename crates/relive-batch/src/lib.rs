//! Batches, which contain the columns of sampled items side by side.
//!
//! A batch has two states. A [`Batch`] is a list of samples, with their bytes still in chunks, and a plan: the pieces
//! of each column are known, but nothing is decoded. A [`Gathered`] batch has its columns in one block of memory. A
//! server gathers batches before it sends them, and a client gathers batches from a table in its own process; both
//! follow such a plan. Small items are copied from their table directly into a gathered batch.
//!
//! [`ColumnLayout`](relive_tensor::ColumnLayout) describes a column, here and everywhere else.

mod batch;
mod error;
mod gather;
mod gathered;
mod info;
mod kind;
mod memory;
mod part;
mod stored;
mod target;
mod threads;

pub use batch::{Batch, BatchColumn};
pub use error::BatchError;
pub use gathered::{Gathered, GatheredColumn};
pub use info::SampleInfo;
pub use memory::{ALIGNMENT, BatchMemory, ColumnMemory, ForeignMemory, Pool};
pub use stored::StoredColumn;
