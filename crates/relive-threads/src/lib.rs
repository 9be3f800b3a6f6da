//! Divides work among threads.
//!
//! Work of microseconds to milliseconds goes to a [`Pool`], whose threads already wait for it. Longer work, which may
//! wait for disks, goes to threads of its own with [`parallel`].

mod parallel;
mod pool;

pub use parallel::{parallel, try_parallel};
pub use pool::Pool;
