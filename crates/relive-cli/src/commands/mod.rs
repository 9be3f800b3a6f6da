//! Each command has its own file or folder.

pub(crate) mod bench;
pub(crate) mod checkpoint;
pub(crate) mod info;
pub(crate) mod job;
pub(crate) mod reset;
pub(crate) mod rl;
pub(crate) mod serve;
pub(crate) mod table;
pub(crate) mod token;
pub(crate) mod top;
