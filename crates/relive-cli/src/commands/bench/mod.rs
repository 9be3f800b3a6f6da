//! `relive bench`: load from clients of our own, each with its own connection, and what the server makes of it.

mod client;
mod hindrance;
mod insert;
mod live;
mod options;
mod payload;
mod plan;
mod result;
mod run;
mod sample;
mod tally;

pub(crate) use options::Options;
pub(crate) use run::run;
