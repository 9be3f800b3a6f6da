//! Memory for observations and actions.

mod copy;
mod memory;
mod view;

pub use memory::Buffer;
pub use view::{View, ViewMut};
