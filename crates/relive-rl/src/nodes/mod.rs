//! Nodes: processes that act for a run with several workers each, one on a machine as a rule, and that join while the
//! run is at work.
//!
//! Each has an id. It gives signs of life, the driver answers all of them by one list, and who is not heard of loses
//! what it has:
//!
//! | Table | Who writes | What it has |
//! |---|---|---|
//! | `signs` | nodes | a queue of signs of life: what a node has, and how many workers it has room for |
//! | `nodes` | the driver | one item: which numbers the workers of each node have, and where each takes weights |
//! | `fresh/0`, `fresh/1` | the driver | boxes with the newest weights, for the nodes that take them from the run's server |
//!
//! A node serves tables of its own, of weights only: `weights`, `fresh/0` and `fresh/1` for other nodes, and
//! `fresh/worker-N` for its workers. So weights go from the run's server to two nodes, from each of these to two
//! others, and from each node to its workers.
//!
//! | File | What it is |
//! |---|---|
//! | `sign.rs`, `list.rs` | what is told both ways |
//! | `membership.rs` | what follows from it: a state without clock or server |
//! | `registry.rs` | the driver's side |
//! | `boxes.rs` | the tables, and the tree of boxes for weights |
//! | `host.rs`, `relay.rs` | a node's side: its workers, and the weights that go through it |

mod boxes;
mod host;
mod list;
mod membership;
mod registry;
mod relay;
mod sign;

pub use boxes::Connect;
pub(crate) use boxes::{box_of_worker, tables};
pub use host::{Hosted, Node, NodeWorkers, Running, host, node_tables};
pub(crate) use registry::Registry;
