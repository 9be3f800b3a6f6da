//! Runs whose workers are processes: around the server of the run's tables.
//!
//! [`train`](crate::run::train) with [`Processes`](crate::run::Processes) learns; it is the driver of the run. Each
//! worker is a process that calls [`work`]. They need no address but the server's. The server is the driver itself,
//! which serves its own tables ([`RunOptions::watch`](crate::run::RunOptions::watch)), or one that is there anyway.
//! Beside the agent's tables it has some more, which the driver adds:
//!
//! | Table | What it has |
//! |---|---|
//! | `job` | one item: what the run is of, and whether it is over |
//! | `weights` | one item: the newest weights |
//! | `results` | a queue: what the workers make and the driver reads |
//! | `orders/N` | a queue: which round of a synchronous plan worker N is to make |
//! | `learner` | one item: the driver's signs of life, so that there is one at a time |
//! | `run` | one item: the state of the run, from which another driver goes on |
//! | `counts` | one item: the counters of the run |
//! | `stop` | one item: that the run is to end, for [`order_stop`](crate::watching::order_stop) |
//! | `logs/driver`, `logs/N` | one item each: the newest lines that the driver and worker N have logged, for [`LogReader`](crate::watching::LogReader) |
//! | `plan` | one item: what each operator of the plan has given and waits for, and who acts, for [`look`](crate::run::look) |
//! | `signs`, `nodes`, `fresh/0`, `fresh/1` | what [nodes](Node) and the driver tell one another, and weights for nodes |

mod weight_source;
mod worker;

pub use worker::{Worker, work};

pub use crate::nodes::{Connect, Hosted, Node, NodeWorkers, Running, host, node_tables};
pub use crate::plan::MakeNamed;
pub use crate::remote::{Layouts, Message, Worked};
