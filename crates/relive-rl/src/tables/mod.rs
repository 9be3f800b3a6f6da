//! The tables through which the processes of a run communicate: one file for each table, with the format of its items.
//!
//! Each table either has a single item, which each insert replaces, or is a queue; [`processes`](crate::processes)
//! lists all of them.

pub(crate) mod item;
pub(crate) mod job;
pub(crate) mod learners;
pub(crate) mod lease;
pub(crate) mod orders;
pub(crate) mod results;
pub(crate) mod run;
pub(crate) mod server;
pub(crate) mod silence;
pub(crate) mod weights;
