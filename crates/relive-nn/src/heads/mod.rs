//! The output heads of policies.

mod normal;

pub use normal::{Gaussians, NormalHead};
