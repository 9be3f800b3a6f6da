//! `relive rl`: agents.

mod agent;
mod agents;
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
mod record;
mod records;
mod run_server;
mod runs;
mod shown;
mod supervisor;
mod sweep;
mod train;
mod wait_for_server;
mod worker;

pub(super) use figures::parts;
pub(crate) use options::{Options, run};
