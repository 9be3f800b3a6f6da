//! Runs with processes as workers, connected through the server of the run's tables.
//!
//! [`train`](crate::run::train) with [`Processes`](crate::run::Processes) learns; its process is the driver
//! of the run. Each worker is a process that calls [`work`]. The server's address is all that workers need.
//! The server is either the driver itself, which serves its own tables
//! ([`RunOptions::watch`](crate::run::RunOptions::watch)), or an existing server. In addition to the agent's
//! tables, the driver adds these:
//!
//! | Table | Content |
//! |---|---|
//! | `job` | one item: the identity of the run, and whether it is over |
//! | `weights` | one item: the newest weights |
//! | `results` | a queue: the workers' results for the driver |
//! | `orders/N` | at most one item: the newest round that worker N must complete in a synchronous plan |
//! | `learner` | one item: the driver's heartbeats, which ensure that there is only one driver at a time |
//! | `learners` | in a run of several [learners](crate::learners), one item: how they join |
//! | `run` | one item: the state of the run, from which another driver can resume |
//! | `counts` | one item: the counters of the run |
//! | `stop` | one item: the order to stop the run, from [`order_stop`](crate::watching::order_stop) |
//! | `logs/driver`, `logs/N` | one item each: the newest log lines of the driver and of worker N, for [`LogReader`](crate::watching::LogReader) |
//! | `plan` | one item: the item counts and waits of the plan's operators, and the workers, for [`look`](crate::run::look) |
//! | `signs`, `nodes`, `fresh/0`, `fresh/1` | messages between [nodes](Node) and the driver, and weights for nodes |

mod weight_source;
mod worker;

pub use worker::{Worker, work};

pub use crate::nodes::{Connect, Hosted, Node, NodeWorkers, Running, host, node_tables};
pub use crate::plan::MakeNamed;
pub use crate::remote::{Layouts, Message, Worked};
