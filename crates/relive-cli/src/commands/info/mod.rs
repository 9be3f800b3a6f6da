//! `relive info`: what a server holds, how its limiters stand, and who waits for what.

mod bar;
mod checkpoints;
mod json;
mod memory;
mod options;
mod rates;
mod run;
mod snapshot;
mod text;

pub(crate) use options::Options;
pub(crate) use run::run;
