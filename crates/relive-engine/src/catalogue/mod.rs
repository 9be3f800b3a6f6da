//! The callers' view of tables: a handle for each, and the list of all.

mod handle;
mod peek;
mod rows;
mod sample;
mod tables;

pub use handle::TableHandle;
pub use peek::PeekedItem;
pub use sample::SampleFuture;
pub(crate) use tables::Catalogue;
