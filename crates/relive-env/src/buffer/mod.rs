//! Memory for observations and actions.

mod memory;
mod view;

pub use memory::Buffer;
pub(crate) use memory::Place;
pub use view::{View, ViewMut};
