//! `relive rl`: agents.

mod agent;
mod agents;
mod board;
mod bsuite_log;
mod figures;
mod launch;
mod learner;
mod node;
mod node_port;
mod options;
mod places;
mod plan;
mod plot;
mod processes;
mod ray;
mod reach;
mod record;
mod records;
mod runs;
mod shown;
mod supervisor;
mod sweep;
mod train;
mod worker;

pub(super) use figures::parts;
pub(crate) use options::{Options, run};
