//! The disk tier: chunks beyond a budget of memory lie on disk, and come back when they are sampled.

mod fetch;
mod marks;
mod returned;
mod spiller;
mod sweep;

pub(crate) use fetch::Fetch;
pub(crate) use marks::Marks;
pub(crate) use spiller::Cold;
