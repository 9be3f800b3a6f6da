//! `relive job`: runs at work, as they are seen from outside.

mod find;
mod logs;
mod ls;
mod options;
mod plan;
mod stop;
mod top;

pub(crate) use options::{Options, run};
