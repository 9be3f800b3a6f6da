//! Checkpoints in either format: the interface for tools and servers.

mod compare;
mod list;
mod load;
mod location;
mod look;
mod older;
mod prune;
mod root;
mod target;

pub use compare::Compared;
pub use list::list;
pub use load::load;
pub use location::{Location, locate};
pub use look::{inspect, verify};
pub use older::Older;
pub use prune::prune;
pub use root::Root;
pub use target::Target;
