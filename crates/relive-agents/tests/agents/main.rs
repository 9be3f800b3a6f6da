//! Tests of agents as users run them.

#[cfg(test)]
mod by_hand;
#[cfg(test)]
mod common;
#[cfg(test)]
mod continuous;
#[cfg(test)]
mod contract;
#[cfg(test)]
mod demonstrations;
#[cfg(test)]
mod dqn;
#[cfg(test)]
mod evaluations;
#[cfg(test)]
mod faulty;
#[cfg(test)]
mod learners;
#[cfg(test)]
mod learning;
#[cfg(test)]
mod logs;
#[cfg(test)]
mod mcts;
#[cfg(test)]
mod offline;
#[cfg(test)]
mod panics;
#[cfg(test)]
mod pictures;
#[cfg(test)]
mod policies;
#[cfg(test)]
mod processes;
#[cfg(test)]
mod recorded;
#[cfg(test)]
mod suite;
#[cfg(test)]
mod suites;
#[cfg(test)]
mod warm_start;
