//! The tables by which the processes of a run talk: a file for each, with what its items are.
//!
//! Each has one item, which the newest takes the place of, or is a queue; see [`processes`](crate::processes) for all
//! of them.

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
