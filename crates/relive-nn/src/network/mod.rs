//! Networks: layers over rows of numbers, with forward and backward passes.

mod builder;
mod conv;
pub(crate) mod dense;
mod init;
mod net;
mod norm;
pub(crate) mod pass;
mod plan;
mod stack;

pub use builder::NetworkBuilder;
pub use init::LinearInit;
pub use net::{Network, Scratch};
