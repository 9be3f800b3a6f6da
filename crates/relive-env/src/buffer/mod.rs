//! Memory for observations and actions.

mod action;
mod copy;
mod memory;
mod place;
mod view;

pub use action::Action;
pub use memory::Buffer;
pub use view::{View, ViewMut};
