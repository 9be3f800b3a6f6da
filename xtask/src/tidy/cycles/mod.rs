//! Modules must not depend on each other in a cycle, neither files nor folders.

mod check;
mod graph;
mod paths;
mod tree;

pub(super) use check::check;
