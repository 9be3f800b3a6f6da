//! The output heads of policies.

mod bounds;
mod normal;

pub use bounds::ActionBounds;
pub use normal::{Gaussians, NormalHead};
