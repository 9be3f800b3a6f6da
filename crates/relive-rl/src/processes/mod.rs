//! Runs whose workers are processes: around the server of the run's tables.
//!
//! [`train`](crate::run::train) with [`Processes`](crate::run::Processes) learns; it is the driver of the run. Each worker is a process that calls [`work`]. They need no
//! address but the server's. The server is the driver itself, which serves its own tables ([`RunOptions::watch`](crate::run::RunOptions::watch)), or one that
//! is there anyway. Beside the agent's tables it has some more, which the driver adds:
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

mod carried;
pub(crate) mod counts;
mod driver;
mod job;
mod lease;
mod nodes;
mod orders;
mod results;
mod serving;
mod supply;
pub(crate) mod tables;
mod watch;
pub(crate) mod weights;
mod worker;

pub use carried::{Carried, Layouts};
pub(crate) use driver::{Driver, Publishing};
pub(crate) use lease::{Lease, TIMES};
pub(crate) use nodes::Registry;
pub use nodes::{Connect, Hosted, Node, NodeWorkers, Running, host, node_tables};
pub(crate) use serving::Serving;
pub(crate) use tables::is_loss;
pub(crate) use watch::{Missed, watched};
pub use worker::{MakeNamed, Worked, Worker, work};
