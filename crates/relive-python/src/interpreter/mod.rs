//! Threads and the interpreter: locks and waits without it, its signals, forks and finalization, and the log.
//!
//! This module does not depend on arrays, tables or writers.

pub(crate) mod finalization;
pub(crate) mod fork;
pub(crate) mod lock;
pub(crate) mod logs;
pub(crate) mod wait;
