//! Moving chunks to disk: a thread keeps what tables have in memory within the engine's budget.

mod spiller;
mod sweep;

pub(crate) use spiller::start;
