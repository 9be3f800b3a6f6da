//! Checks that neither files nor folders of modules depend on each other in a cycle.

mod check;
mod graph;
mod paths;
mod tree;

pub(super) use check::check;
