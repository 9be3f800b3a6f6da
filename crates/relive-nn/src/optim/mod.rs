//! Optimizers over flat parameters.

mod bytes;
mod clip;
mod kinds;
mod optimizer;

pub use clip::global_norm;
pub use kinds::{Adam, RmsProp, Sgd};
pub use optimizer::Optimizer;
