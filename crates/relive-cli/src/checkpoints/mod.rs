//! The checkpoints of `relive serve`: what users choose, and the engine that begins with them.

mod choice;
mod options;
mod plan;
mod start;

pub(crate) use choice::{ConfigFrom, FormatChoice};
pub(crate) use options::{Checkpoints, Keys};
