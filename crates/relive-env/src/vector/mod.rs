//! Many environments of the same kind, stepped together.

mod batch;
mod vectorized;

pub use batch::BatchEnvironment;
pub use vectorized::Vectorized;
