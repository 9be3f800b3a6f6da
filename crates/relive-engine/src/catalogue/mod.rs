//! The callers' view of tables: a handle for each table, and the list of all tables.

mod handle;
mod peek;
mod rows;
mod sample;
mod tables;

pub use handle::TableHandle;
pub use peek::PeekedItem;
pub use sample::{SampleFuture, Undelivered};
pub(crate) use tables::Catalogue;
