//! `relive table`: changes the tables of a running server.

mod add;
mod changed;
mod drop;
mod options;
mod pause;
mod set;

pub(crate) use options::{Options, run};
