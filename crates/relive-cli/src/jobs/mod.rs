//! The running jobs on this machine: the files that make them discoverable.

mod process;
mod record;

pub(crate) use record::{Job, Record, Registered, all, expect_name, named};
