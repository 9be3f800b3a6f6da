//! `relive table`: changing the tables of a server in use.

mod add;
mod changed;
mod drop;
mod options;
mod pause;
mod run;
mod set;

pub(crate) use options::Options;
pub(crate) use run::run;
