//! Workers and learners in other processes, for use in the plan of a run.

mod driver;
mod message;
mod rounds;
mod tables;
mod team;
mod worker_output;

pub(crate) use driver::{Driver, Publishing, Started};
pub use message::{Layouts, Message};
pub(crate) use tables::of_run as tables_of_run;
pub(crate) use team::Team;
pub use worker_output::Worked;
pub(crate) use worker_output::{Stream, WorkerOutput};
