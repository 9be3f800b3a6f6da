//! Agents as their users run them.

mod common;
mod contract;
mod learning;
