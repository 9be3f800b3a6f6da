//! `relive rl plot`: pictures of runs.

mod canvas;
mod curve;
mod curves;
mod options;
mod radar;

pub(crate) use options::{Options, curves, run};
