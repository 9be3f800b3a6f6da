//! Nodes: processes that act for a run with several workers each, usually one per machine. Nodes can join
//! while the run is active.
//!
//! Each node has an id and sends heartbeats; the driver answers all nodes with one list. A node that becomes silent
//! loses its worker numbers:
//!
//! | Table | Writer | Content |
//! |---|---|---|
//! | `signs` | nodes | a queue of heartbeats: a node's state, and how many workers it has room for |
//! | `nodes` | the driver | one item: the worker numbers of each node, and the source of its weights |
//! | `fresh/0`, `fresh/1` | the driver | boxes with the newest weights, for the nodes that take them from the run's server |
//!
//! A node serves its own tables, which contain only weights: `weights`, `fresh/0` and `fresh/1` for other nodes, and
//! `fresh/worker-N` for its workers. Weights therefore pass from the run's server to two nodes, from each of these to
//! two other nodes, and from each node to its workers.
//!
//! | File | Content |
//! |---|---|
//! | `heartbeat.rs`, `list.rs` | the messages in both directions |
//! | `membership.rs` | the state machine of the driver, without clock and server |
//! | `registry.rs` | the driver's side |
//! | `boxes.rs` | the tables, and the tree of boxes for weights |
//! | `host.rs`, `relay.rs` | a node's side: its workers, and the weights that it passes on |

mod boxes;
mod heartbeat;
mod host;
mod list;
mod membership;
mod registry;
mod relay;

pub use boxes::Connect;
pub(crate) use boxes::{tables, worker_weight_table};
pub use host::{Hosted, Node, NodeWorkers, Running, host, node_tables};
pub(crate) use registry::Registry;
