//! What policies put behind their networks.

mod bounds;
mod normal;

pub use bounds::ActionBounds;
pub use normal::{Gaussians, NormalHead};
