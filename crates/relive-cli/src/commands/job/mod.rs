//! `relive job`: observes and ends runs from outside.

mod find;
mod logs;
mod ls;
mod options;
mod plan;
mod stop;
mod top;

pub(crate) use options::{Options, run};
