//! `relive info`: what a server holds, how its limiters stand, and who waits for what.

pub(super) mod bar;
pub(super) mod checkpoints;
mod json;
pub(super) mod memory;
pub(super) mod rates;
mod run;
pub(super) mod snapshot;
pub(super) mod text;
mod waiters;

pub(crate) use run::{Options, run};
