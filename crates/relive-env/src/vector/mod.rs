//! Many environments of a kind, stepped together.

mod batch;
mod threaded;
mod vectorized;
mod worker;

pub use batch::BatchEnvironment;
pub use threaded::ThreadedEnvironments;
pub use vectorized::Vectorized;
