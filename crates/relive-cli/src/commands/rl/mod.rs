//! `relive rl`: agents.

mod agent;
mod agents;
mod board;
mod bsuite_log;
mod figures;
mod launch;
mod node;
mod node_port;
mod options;
mod places;
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
mod top;
mod train;
mod worker;

pub(crate) use options::{Options, run};
