//! The operators of one flow.

mod batch;
mod each;
mod prefetch;
mod shuffle;
mod take;

pub use each::Context;
