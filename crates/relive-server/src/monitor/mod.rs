//! Monitoring for operators: metrics, health and the dashboard, over HTTP on an address of its own.
//!
//! This module only reads. It runs on one thread of its own, so monitoring costs inserts and samples no more than the
//! short locks under which the tables are described.

mod connection_slots;
mod events;
mod facts;
mod histogram;
mod history;
mod metrics;
mod overview;
mod plan;
mod process;
mod prometheus;
mod resources;
mod router;
mod server;
mod state;
mod view;

pub use server::HttpServer;
pub use state::Monitor;
