//! One file or folder for each command.

mod runtime;
pub(crate) mod serve;

pub(crate) use runtime::run;
