//! Parameters: their names, shapes and values.

mod init;
mod layout;
mod safetensors;
mod store;

pub use self::safetensors::safetensors_metadata;
pub use init::{Distribution, Init};
pub use layout::{Layout, Leaf};
pub use store::Params;
