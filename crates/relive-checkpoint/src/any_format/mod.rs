//! Checkpoints in either format: the interface for tools and servers.

mod compare;
mod inspect;
mod list;
mod load;
mod location;
mod older;
mod prune;
mod root;
mod target;

pub use compare::Compared;
pub use inspect::{inspect, verify};
pub use list::list;
pub use load::load;
pub use location::{Location, locate};
pub use older::Older;
pub use prune::prune;
pub use root::Root;
pub use target::Target;
