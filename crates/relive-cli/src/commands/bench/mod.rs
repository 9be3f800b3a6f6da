//! `relive bench`: measures a server under load from Relive's clients, each with its own connection.

mod blocked_on;
mod client;
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
