//! Operators on a single flow.

mod batch;
mod checkpoint;
mod each;
mod in_threads;
mod prefetch;
mod shuffle;
mod take;
mod timeout;
mod window;

pub use each::Context;
