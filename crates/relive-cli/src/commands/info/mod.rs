//! `relive info`: shows the contents of a server, the state of its limiters, and its waiters.

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
