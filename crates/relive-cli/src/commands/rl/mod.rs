//! `relive rl`: agents.

mod options;
mod train;

pub(crate) use options::{Options, run};
