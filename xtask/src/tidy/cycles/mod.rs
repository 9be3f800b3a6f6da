//! No module uses one that uses it, neither files nor folders.

mod check;
mod graph;
mod paths;
mod tree;

pub(super) use check::check;
