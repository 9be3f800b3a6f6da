//! Hosts, learners and streams between processes.

mod hosts;
mod learners;
mod ring;
mod simulated;
mod streams;
