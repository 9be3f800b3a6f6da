//! Many environments of a kind, stepped together.

mod batch;
mod vectorized;

pub use batch::BatchEnvironment;
pub use vectorized::Vectorized;
