//! Moves chunks to disk: a thread keeps the tables' memory within the engine's budget.

mod spiller;
mod sweep;

pub(crate) use spiller::start;
