//! `relive rl sweep`: agents × tasks × seeds, with one report on all of them.

mod lock;
mod options;
mod plans;
mod report;
mod run;
mod scores;
mod suite;
mod work;

pub(crate) use options::Options;
pub(crate) use run::run;
