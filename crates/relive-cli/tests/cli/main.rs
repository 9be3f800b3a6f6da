//! Tests the program as users run it: processes, signals, exit codes, and the output on stdout and stderr.
//!
//! Helpers are marked as test code, in which `unwrap` is allowed.

#[cfg(test)]
mod bench;
#[cfg(test)]
mod buckets;
#[cfg(test)]
mod checkpoint_commands;
#[cfg(test)]
mod checkpoint_support;
#[cfg(test)]
mod checkpoints;
#[cfg(test)]
mod deploy;
#[cfg(test)]
mod http;
#[cfg(test)]
mod info;
#[cfg(test)]
mod jobs;
#[cfg(test)]
mod kills;
#[cfg(test)]
mod rl;
#[cfg(test)]
mod rl_data;
#[cfg(test)]
mod rl_faults;
#[cfg(test)]
mod rl_hosts;
#[cfg(test)]
mod rl_launch;
#[cfg(test)]
mod rl_learners;
#[cfg(test)]
mod rl_node_weights;
#[cfg(test)]
mod rl_nodes;
#[cfg(test)]
mod rl_plan;
#[cfg(test)]
mod rl_processes;
#[cfg(test)]
mod rl_sweep;
#[cfg(test)]
mod running;
#[cfg(test)]
mod security;
mod serve;
mod spill;
#[cfg(test)]
mod support;
#[cfg(test)]
mod table;
mod usage;
