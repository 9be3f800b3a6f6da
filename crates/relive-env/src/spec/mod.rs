//! Specs of observations, actions, rewards and discounts.

mod array;
mod check;
mod environment;

pub use array::{ArraySpec, Domain};
pub(crate) use check::check_leaf;
pub use environment::EnvironmentSpec;
