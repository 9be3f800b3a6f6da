//! `relive table`: changing the tables of a server in use.

mod add;
mod changed;
mod drop;
mod options;
mod pause;
mod set;

pub(crate) use options::{Options, run};
