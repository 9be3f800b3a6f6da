//! Threads beside the interpreter: locks and waits without it, its signals, forks and end, and the log.
//!
//! Nothing here knows arrays, tables or writers.

pub(crate) mod finalization;
pub(crate) mod fork;
pub(crate) mod lock;
pub(crate) mod logs;
pub(crate) mod wait;
