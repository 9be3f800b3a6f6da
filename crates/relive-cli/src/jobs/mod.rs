//! The runs of this machine that are at work: the files by which they are found.

mod process;
mod record;

pub(crate) use record::{Job, Record, Registered, all, expect_name, named};
