//! Monitoring for operators: metrics, health and the dashboard, over HTTP on a separate address.
//!
//! This module only reads. It runs on a separate thread, so that monitoring delays inserts and samples only while it
//! holds the short locks under which the tables are described.

mod connection_slots;
mod events;
mod facts;
mod histogram;
mod history;
mod host;
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
