//! Batches: the columns of sampled items side by side.
//!
//! There are two states of a batch. A [`Batch`] is samples whose bytes lie in their chunks, planned: what each column
//! consists of is known, and nothing is decoded. A [`Gathered`] batch has its columns in one block of memory. A
//! server gathers what it sends, a client what its table in the same process gives, by the same plan; small items are
//! copied out of their table straight into a gathered batch.
//!
//! [`ColumnLayout`](relive_tensor::ColumnLayout) says what a column looks like, here and everywhere else.

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
