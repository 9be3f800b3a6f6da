//! Writers: environments in other processes that write trajectories in place, taking turns with the controller.

mod client;
mod serve;

#[cfg(test)]
mod tests;

pub use client::Writer;
pub use serve::{Request, Scan};
