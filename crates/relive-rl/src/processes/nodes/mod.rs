//! Nodes: processes that act for a run with several workers each, one on a machine as a rule, and that join while the run is at work.
//!
//! Each has an id. It gives signs of life, the driver answers all of them by one list, and who is not heard of loses what it has:
//!
//! | Table | Who writes | What it has |
//! |---|---|---|
//! | `signs` | nodes | a queue of signs of life: what a node has, and how many workers it has room for |
//! | `nodes` | the driver | one item: which numbers the workers of each node have, and where each takes weights |
//! | `fresh/0`, `fresh/1` | the driver | boxes with the newest weights, for the nodes that take them from the run's server |
//!
//! A node serves tables of its own, of weights only: `weights`, `fresh/0` and `fresh/1` for other nodes, and `fresh/worker-N` for its workers. So
//! weights go from the run's server to two nodes, from each of these to two others, and from each node to its workers.
//!
//! | File | What it is |
//! |---|---|
//! | `sign.rs`, `list.rs` | what is told both ways |
//! | `roll.rs`, `tree.rs` | what follows from it: states without clock or server |
//! | `registry.rs` | the driver's side |
//! | `host.rs`, `relay.rs` | a node's side: its workers, and the weights that go through it |

mod host;
mod list;
mod registry;
mod relay;
mod roll;
mod sign;
mod tree;

use std::fmt::Display;
use std::sync::Arc;

use relive_client::blocking::Client;
use relive_table::TableConfig;

use crate::Result;

pub use host::{Hosted, Node, NodeWorkers, Running, host, node_tables};
pub(crate) use registry::Registry;

/// Makes a client of the server at an address.
pub type Connect = Arc<dyn Fn(&str) -> Result<Client> + Send + Sync>;

/// Those of the run's server.
pub(super) fn tables() -> impl Iterator<Item = TableConfig> {
    [sign::table(), list::table()].into_iter().chain(boxes_of_nodes())
}

/// Boxes for the nodes that take weights from one place.
fn boxes_of_nodes() -> impl Iterator<Item = TableConfig> {
    (0..tree::FAN_OUT).map(|slot| super::weights::fresh(&slot.to_string()))
}

/// The box of a worker, at its node.
pub(super) fn box_of_worker(number: impl Display) -> String {
    format!("worker-{number}")
}
