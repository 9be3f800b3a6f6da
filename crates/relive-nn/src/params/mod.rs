//! Parameters: their names, shapes and values.

mod init;
mod layout;
mod store;

pub use init::{Distribution, Init};
pub use layout::{Layout, Leaf};
pub use store::Params;
