//! The environments of bsuite 0.3.6 but MNIST.

mod catch;

pub use catch::{Catch, CatchTask};
