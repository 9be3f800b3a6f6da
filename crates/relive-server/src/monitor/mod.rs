//! What operators look at: metrics, health and the dashboard, over HTTP on an address of its own.
//!
//! Everything here reads. It runs on one thread of its own, so that looking costs those who insert and sample no more than
//! the short locks under which the tables are described.

mod events;
mod facts;
mod health;
mod histogram;
mod history;
mod look;
mod metrics;
mod plan;
mod process;
mod prometheus;
mod resources;
mod router;
mod seats;
mod server;
mod state;

pub use server::HttpServer;
pub use state::Monitor;
