//! The disk tier: chunks beyond a budget of memory lie on disk, and come back when they are sampled.

mod fetch;
mod spiller;
mod sweep;

pub(crate) use fetch::Fetch;
pub(crate) use spiller::Cold;
