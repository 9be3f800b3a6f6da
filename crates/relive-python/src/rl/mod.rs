//! Agents and environments: `relive.rl`.
//!
//! Native parts run without the interpreter. Python environments are stepped through [`foreign`].

mod agents;
mod check;
mod cost;
mod foreign;
mod hooks;
mod leaves;
mod log_files;
mod native;
mod nodes;
mod policy;
mod processes;
mod raise;
mod report;
mod ring;
mod run;
mod source;
mod spec;

pub(crate) use agents::{agent_for_environment, agent_settings, check_agent, reference_scores};
pub(crate) use check::check_environment;
pub(crate) use cost::{load_costs, measure_costs, predict_costs, save_costs};
pub(crate) use native::{NativeEnvironment, expect_environment};
pub(crate) use nodes::host_for_run;
pub(crate) use policy::Policy;
pub(crate) use processes::{learn_for_run, work_for_run};
pub(crate) use ring::Ring;
pub(crate) use run::{end_runs, train_agent};
